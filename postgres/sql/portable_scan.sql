-- A page of buckets: keys that start with $1 and come after $2, in byte order, at most $3 of
-- them. $4 is the end of the range, or null. portable_clock.sql reads the time.
SELECT s.key, s.level, s.atime, s.held, s.capacity, s.leak_rate, s.blocked_until, NULL::timestamptz
FROM {{schema}}.{{table}} AS s
WHERE s.key > $2::text AND s.key >= $1::text AND starts_with(s.key, $1::text)
  AND ($4::text IS NULL OR s.key < $4::text)
ORDER BY s.key
LIMIT $3
