-- The TryFillups of many callers where hardly any is refused. This is try_many.sql without its
-- look at the snapshot, which costs half as much again as the rest. An amount that does not fit
-- is not returned, although its row was locked: the caller sends it again with try_many.sql,
-- and sends only that statement where refusals are frequent.
--
-- Parameters as in try_many.sql.
INSERT INTO {{schema}}.{{table}} AS t (level, atime, pre, held, capacity, leak_rate, key)
SELECT u.fresh, {{started($9)}}, -1 - u.grp, 0, u.capacity, u.leak_rate, u.key
FROM (SELECT $1::text[] AS k, $2::float8[] AS c, $3::float8[] AS r, $4::float8[] AS l,
             $5::float8[] AS f, $6::int4[] AS g OFFSET 0) AS a
     CROSS JOIN LATERAL unnest(a.k, a.c, a.r, a.l, a.f, a.g) WITH ORDINALITY
         AS u (key, capacity, leak_rate, least, fresh, grp, i)
WHERE u.least <= u.capacity
ORDER BY u.i
ON CONFLICT (key) DO UPDATE SET {{fill_group()}}
RETURNING key, level, atime, pre, held, {{started($9)}}
