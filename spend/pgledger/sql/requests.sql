-- The time, $2 or the server's, and the answers to the IDs in $1, if there are any. When a batch
-- sends this statement, it holds all locks.
SELECT {{instant(c.now)}}, {{request(r)}}
FROM (SELECT {{clock($2)}} AS now OFFSET 0) AS c
     LEFT JOIN {{schema}}.{{requests}} AS r ON r.id = ANY ($1::bytea[])
