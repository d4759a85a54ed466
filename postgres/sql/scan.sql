-- A page of buckets: keys that start with $1 and come after $2, in byte order, at most $3 of them.
SELECT s.key, s.level, s.atime, s.held, s.capacity, s.leak_rate, s.blocked_until, COALESCE($4::timestamptz, clock_timestamp())
FROM {{schema}}.{{table}} AS s
WHERE s.key > $2::text AND s.key >= $1::text AND starts_with(s.key, $1::text)
  -- The end of the range lets the index stop: starts_with alone would read on to the last key.
  AND ($5::text IS NULL OR s.key < $5::text)
ORDER BY s.key
LIMIT $3
