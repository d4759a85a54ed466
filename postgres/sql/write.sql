-- Stores rows that lock.sql has locked: all columns of columns.go, of the rows in the arguments. ANY has
-- each key looked up in the index: with the plain operator, a join could read the whole table.
--
-- $1 the keys
-- $2 ... an array for each column, in the order of columns.go
UPDATE {{schema}}.{{table}} AS t
SET {{assigned(u)}}
FROM {{rows(u)}}
WHERE t.key = ANY (ARRAY[u.key])
