-- The rows of the keys in $1, and the time: $2, or the server's. After lock.sql all locks are
-- held at this time.
SELECT s.key, s.level, s.atime, s.held, s.capacity, s.leak_rate, s.blocked_until, c.now
FROM (SELECT {{clock($2)}} AS now OFFSET 0) AS c
     LEFT JOIN {{schema}}.{{table}} AS s ON s.key = ANY ($1::text[])
