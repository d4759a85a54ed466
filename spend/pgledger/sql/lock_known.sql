-- lock.sql for decisions that concern no earlier spend: the accounts in $1, which are in byte
-- order.
INSERT INTO {{schema}}.{{accounts}} AS a (key)
SELECT u.key
FROM (SELECT $1::text[] AS k OFFSET 0) AS p
     CROSS JOIN LATERAL unnest(p.k) WITH ORDINALITY AS u (key, i)
ORDER BY u.i
ON CONFLICT (key) DO UPDATE SET next_expiry = a.next_expiry WHERE false
RETURNING key
