-- Locks the row of the key $1, or makes it and returns the key. The update never happens, but its
-- row is locked. The row that it makes has no meaning: the transaction replaces or removes it.
INSERT INTO {{schema}}.{{table}} AS t (level, atime, held, capacity, leak_rate, key)
VALUES (0, timestamptz 'epoch', 0, 0, 0, $1::text)
ON CONFLICT (key) DO UPDATE SET level = t.level WHERE false
RETURNING key
