-- The rows of the keys in $1, and the time: $2, or the server's. It locks nothing. Behind
-- update_one.sql or update_many.sql it tells why a row was not written, and the client answers the
-- refusal from it. Behind lock.sql all locks are held at this time. A row without a key has the time
-- alone.
SELECT s.key, {{stored(s)}}, {{instant(c.now)}}
FROM (SELECT $1::text[] AS k, {{clock($2)}} AS now OFFSET 0) AS c
     LEFT JOIN LATERAL pg_catalog.unnest(c.k) AS u (key) ON true
     LEFT JOIN LATERAL (SELECT s.* FROM {{schema}}.{{table}} AS s WHERE s.key = u.key OFFSET 0) AS s ON true
