-- Keys after $1 of buckets that had leaked empty at the time $2, in byte order, at most $3 of
-- them. It locks nothing.
SELECT t.key FROM {{schema}}.{{table}} AS t
WHERE t.key > $1::text AND {{expired(t, $2::timestamptz)}}
ORDER BY t.key
LIMIT $3
