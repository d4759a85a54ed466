-- Locks the rows of the keys in $1, which are in byte order, and creates the missing ones,
-- which it returns. The update never happens, but its row is locked. One pass creates and locks
-- in one order, so that no two statements wait for each other. $2 is the clock, or null for the
-- server's.
INSERT INTO {{schema}}.{{table}} AS t (level, atime, pre, held, capacity, leak_rate, key)
SELECT 0, {{clock($2)}}, 0, 0, 0, 0, u.key
FROM (SELECT $1::text[] AS k OFFSET 0) AS a
     CROSS JOIN LATERAL unnest(a.k) WITH ORDINALITY AS u (key, i)
ORDER BY u.i
ON CONFLICT (key) DO UPDATE SET level = t.level WHERE false
RETURNING key
