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
-- $11 the lock_timeout in milliseconds, or null
--
-- A group's number travels in pre, which is negative in a new row.
WITH c AS MATERIALIZED (
    SELECT {{clock($9)}} AS now, {{lock_timeout($11)}}
), asked AS MATERIALIZED (
    SELECT u.key, u.new_capacity, u.new_rate, u.least, u.fresh, u.grp, u.i, s.key IS NULL AS absent,
           s.level, s.atime, s.held, s.capacity, s.leak_rate, s.blocked_until
    -- The arrays come through a sub-select so that the planner does not count their elements:
    -- it would make a new plan for every length instead of keeping one.
    FROM (SELECT $1::text[] AS k, $2::float8[] AS c, $3::float8[] AS r, $4::float8[] AS l,
                 $5::float8[] AS f, $6::int4[] AS g OFFSET 0) AS a
         CROSS JOIN LATERAL unnest(a.k, a.c, a.r, a.l, a.f, a.g) WITH ORDINALITY
             AS u (key, new_capacity, new_rate, least, fresh, grp, i)
         -- One look into the index per key. A join could read the whole table, by a plan from the
         -- time when the table was small.
         LEFT JOIN LATERAL (SELECT s.key, s.level, s.atime, s.held, s.capacity, s.leak_rate, s.blocked_until
                            FROM {{schema}}.{{table}} AS s WHERE s.key = u.key OFFSET 0) AS s ON true
), written AS (
    INSERT INTO {{schema}}.{{table}} AS t (level, atime, pre, held, capacity, leak_rate, key)
    SELECT a.fresh, c.now, -1 - a.grp, 0, a.new_capacity, a.new_rate, a.key
    FROM asked AS a, c
    WHERE CASE WHEN a.absent THEN a.least <= a.new_capacity
               ELSE {{usable(a, c.now, $10, a.least)}}
                    AND {{fits(a, c.now, a.least, a.new_capacity)}} END
    ORDER BY a.i  -- rows are locked in byte order of key: no two statements can wait for each other
    -- EXCLUDED has the group's number in pre: -1 means one amount, which EXCLUDED.level has. The
    -- sums of another group stand in $8, and the longest prefix that fits goes in. pre keeps the
    -- level before it, where the answers need it: RETURNING knows only the new row before
    -- PostgreSQL 18.
    ON CONFLICT (key) DO UPDATE SET
        level = {{leaked(t, EXCLUDED.atime)}}
                + CASE WHEN EXCLUDED.pre = -1 THEN EXCLUDED.level ELSE (
                      SELECT max(p)
                      FROM unnest(($8::float8[])[($7::int4[])[(-1 - EXCLUDED.pre)::int4]
                                                 : ($7::int4[])[(-EXCLUDED.pre)::int4] - 1]) AS p
                      WHERE {{fits(t, EXCLUDED.atime, p, EXCLUDED.capacity)}}) END,
        pre = CASE WHEN EXCLUDED.pre < -1 THEN {{leaked(t, EXCLUDED.atime)}} END,
        atime = {{time_to_store(t, EXCLUDED.leak_rate, EXCLUDED.atime, {{leaked(t, EXCLUDED.atime)}})}},
        capacity = EXCLUDED.capacity,
        leak_rate = EXCLUDED.leak_rate
    WHERE {{usable(t, EXCLUDED.atime, $10, {{least($7, $8)}})}}
      AND {{fits(t, EXCLUDED.atime, {{least($7, $8)}}, EXCLUDED.capacity)}}
    RETURNING level, atime, pre, held, key
)
SELECT a.i, w.key IS NOT NULL, {{bits(w.pre)}}, {{instant(c.now)}}, {{stored(d)}}
FROM c, asked AS a LEFT JOIN written AS w ON w.key = a.key
     CROSS JOIN LATERAL (SELECT COALESCE(w.level, a.level) AS level, COALESCE(w.atime, a.atime) AS atime,
                                COALESCE(w.held, a.held) AS held, a.capacity, a.leak_rate, a.blocked_until) AS d
