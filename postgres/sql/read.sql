-- The rows of the keys in $1 and the time, $2 or the server's. After lock.sql the time is one at which all locks were held.
SELECT s.key, s.level, s.atime, s.held, s.capacity, s.leak_rate, s.blocked_until, c.now
FROM (SELECT COALESCE($2::timestamptz, clock_timestamp()) AS now OFFSET 0) AS c
     LEFT JOIN {{schema}}.{{table}} AS s ON s.key = ANY ($1::text[])
