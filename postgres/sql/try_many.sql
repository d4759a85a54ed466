-- The TryFillups of many callers in one statement: one element per key, keys in byte order.
--
-- $1 keys
-- $2 capacities
-- $3 leak rates
-- $4 smallest amount that a caller asks of the key
-- $5 level to store where the row is missing
-- $6 0 where one caller asks of the key, else the number of its group
-- $7 where the sums of each group start in $8, and one more element for the end
-- $8 per group the sums of its amounts in ascending order: the longest prefix that fits goes in
-- $9 the clock, or null for the server's
-- $10 how far ahead of the clock a stored time may be
--
-- A group's number travels in pre, which is negative in a new row.
WITH c AS MATERIALIZED (
    SELECT {{clock($9)}} AS now
), asked AS MATERIALIZED (
    SELECT u.key, u.capacity, u.leak_rate, u.least, u.fresh, u.grp, u.i,
           s.level, s.atime, s.held, s.blocked_until, s.key IS NULL AS absent
    -- The arrays come through a sub-select so that the planner does not count their elements:
    -- it would make a new plan for every length instead of keeping one.
    FROM (SELECT $1::text[] AS k, $2::float8[] AS c, $3::float8[] AS r, $4::float8[] AS l,
                 $5::float8[] AS f, $6::int4[] AS g OFFSET 0) AS a
         CROSS JOIN LATERAL unnest(a.k, a.c, a.r, a.l, a.f, a.g) WITH ORDINALITY
             AS u (key, capacity, leak_rate, least, fresh, grp, i)
         LEFT JOIN {{schema}}.{{table}} AS s ON s.key = u.key
), written AS (
    INSERT INTO {{schema}}.{{table}} AS t (level, atime, pre, held, capacity, leak_rate, key)
    SELECT a.fresh, c.now, -1 - a.grp, 0, a.capacity, a.leak_rate, a.key
    FROM asked AS a, c
    WHERE CASE WHEN a.absent THEN a.least <= a.capacity
               ELSE {{usable(a, c.now, $10)}}
                    AND {{fits(a, a.leak_rate, c.now, a.least, a.capacity)}} END
    ORDER BY a.i  -- rows are locked in byte order of key: no two statements can wait for each other
    ON CONFLICT (key) DO UPDATE SET {{fill_group()}}
    RETURNING level, atime, pre, held, key
)
SELECT a.i, w.key IS NOT NULL, COALESCE(w.level, a.level), COALESCE(w.atime, a.atime), w.pre,
       COALESCE(w.held, a.held), a.blocked_until, c.now
FROM c, asked AS a LEFT JOIN written AS w ON w.key = a.key
