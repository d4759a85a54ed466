-- A page of buckets: keys that start with $1 and come after $2, in byte order, at most $3 of
-- them. $4 is the clock, or null for the server's.
SELECT s.key, {{stored(s)}}, {{instant({{clock($4)}})}}
FROM {{schema}}.{{table}} AS s
WHERE s.key > $2::text AND s.key >= $1::text AND starts_with(s.key, $1::text)
  -- $5, the end of the range, lets the index stop: starts_with alone would read on to the last
  -- key. Where it is null, there is no end. An OR would be no condition of the index.
  AND s.key < COALESCE($5::text, (SELECT max(m.key) || ' '::text FROM {{schema}}.{{table}} AS m))
ORDER BY s.key
LIMIT $3
