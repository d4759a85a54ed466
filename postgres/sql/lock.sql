-- Locks the rows of the keys in $1, which are in byte order, and creates those that are missing, which it returns. The update
-- never happens, but its row is locked: creating and locking in one pass keeps to one order, so that nobody can wait for us
-- while we wait for them.
INSERT INTO {{schema}}.{{table}} AS t (level, atime, pre, held, capacity, leak_rate, key)
SELECT 0, COALESCE($2::timestamptz, clock_timestamp()), 0, 0, 0, 0, u.key
FROM (SELECT $1::text[] AS k OFFSET 0) AS a CROSS JOIN LATERAL unnest(a.k) WITH ORDINALITY AS u (key, i)
ORDER BY u.i
ON CONFLICT (key) DO UPDATE SET level = t.level WHERE false
RETURNING key
