-- Stores rows that lock.sql has locked. ANY has each key looked up in the index: with the plain
-- operator, a join could read the whole table.
UPDATE {{schema}}.{{table}} AS t
SET level = u.level, atime = u.atime, held = u.held, capacity = u.capacity, leak_rate = u.leak_rate,
    blocked_until = u.blocked_until
FROM (SELECT $1::text[] AS k, $2::float8[] AS l, $3::timestamptz[] AS a, $4::float8[] AS h,
             $5::float8[] AS c, $6::float8[] AS r, $7::timestamptz[] AS b OFFSET 0) AS p
     CROSS JOIN LATERAL unnest(p.k, p.l, p.a, p.h, p.c, p.r, p.b)
         AS u (key, level, atime, held, capacity, leak_rate, blocked_until)
WHERE t.key = ANY (ARRAY[u.key])
