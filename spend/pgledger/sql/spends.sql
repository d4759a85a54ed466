-- Replaces the spends of requests. All of their accounts are locked, so no other transaction
-- replaces them. For ANY see store.sql.
UPDATE {{schema}}.{{requests}} AS r SET spend = u.spend
FROM (SELECT $1::text[] AS i, $2::bytea[] AS s OFFSET 0) AS p
     CROSS JOIN LATERAL unnest(p.i, p.s) AS u (id, spend)
WHERE r.id = ANY (ARRAY[u.id])
