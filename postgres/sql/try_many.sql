-- The TryFillups of many callers: one statement, one element per key, keys in byte order.
--
-- $1 keys  $2 capacities  $3 leak rates  $4 smallest amount asked of the key  $5 what goes in if there is no such row
-- $6 0 where one caller asks of the key, else the number of its group  $7 where a group's sums start in $8, and one more for the end
-- $8 per group the sums of its amounts in ascending order: the longest prefix that fits is what goes in
-- $9 the clock, or null for the server's  $10 how far ahead a stored time may be
--
-- See try_one.sql for the arithmetic. A group's number travels in pre, which a new row shows as negative. Of an old row it shows
-- what was in it before, where the answers need that: RETURNING knows only the new row before PostgreSQL 18.
WITH c AS MATERIALIZED (
    SELECT COALESCE($9::timestamptz, clock_timestamp()) AS now
), asked AS MATERIALIZED (
    SELECT u.key, u.capacity, u.leak_rate, u.least, u.fresh, u.grp, u.i,
           s.level, s.atime, s.held, s.blocked_until, s.key IS NULL AS absent
    -- The arrays come through a sub-select so that the planner does not count their elements: it would make a new plan for
    -- every length instead of keeping one.
    FROM (SELECT $1::text[] AS k, $2::float8[] AS c, $3::float8[] AS r, $4::float8[] AS l, $5::float8[] AS f, $6::int4[] AS g OFFSET 0) AS a
         CROSS JOIN LATERAL unnest(a.k, a.c, a.r, a.l, a.f, a.g) WITH ORDINALITY AS u (key, capacity, leak_rate, least, fresh, grp, i)
         LEFT JOIN {{schema}}.{{table}} AS s ON s.key = u.key
), written AS (
    INSERT INTO {{schema}}.{{table}} AS t (level, atime, pre, held, capacity, leak_rate, key)
    SELECT a.fresh, c.now, -1 - a.grp, 0, a.capacity, a.leak_rate, a.key
    FROM asked AS a, c
    WHERE CASE WHEN a.absent THEN a.least <= a.capacity
               ELSE (a.blocked_until IS NULL OR a.blocked_until <= GREATEST(c.now, a.atime))
                    AND a.atime - c.now <= $10::interval
                    AND GREATEST(0, a.level - a.leak_rate * (round(date_part('epoch', GREATEST(c.now, a.atime) - a.atime) * 1e6) / 1e6))
                        + a.held + a.least <= a.capacity END
    ORDER BY a.i  -- rows are locked in byte order of key: no two statements can wait for each other
    ON CONFLICT (key) DO UPDATE SET
        level = GREATEST(0, t.level - EXCLUDED.leak_rate * (round(date_part('epoch', GREATEST(EXCLUDED.atime, t.atime) - t.atime) * 1e6) / 1e6))
                + CASE WHEN EXCLUDED.pre = -1 THEN EXCLUDED.level ELSE (
                      SELECT max(p)
                      FROM unnest(($8::float8[])[($7::int4[])[(-1 - EXCLUDED.pre)::int4] : ($7::int4[])[(-EXCLUDED.pre)::int4] - 1]) AS p
                      WHERE GREATEST(0, t.level - EXCLUDED.leak_rate * (round(date_part('epoch', GREATEST(EXCLUDED.atime, t.atime) - t.atime) * 1e6) / 1e6))
                            + t.held + p <= EXCLUDED.capacity) END,
        pre = CASE WHEN EXCLUDED.pre < -1 THEN GREATEST(0, t.level - EXCLUDED.leak_rate * (round(date_part('epoch', GREATEST(EXCLUDED.atime, t.atime) - t.atime) * 1e6) / 1e6)) END,
        atime = CASE WHEN t.level > 0 AND EXCLUDED.leak_rate > 0
                      AND t.level = t.level - EXCLUDED.leak_rate * (round(date_part('epoch', GREATEST(EXCLUDED.atime, t.atime) - t.atime) * 1e6) / 1e6)
                     THEN t.atime ELSE GREATEST(EXCLUDED.atime, t.atime) END,
        capacity = EXCLUDED.capacity,
        leak_rate = EXCLUDED.leak_rate
    WHERE (t.blocked_until IS NULL OR t.blocked_until <= GREATEST(EXCLUDED.atime, t.atime))
      AND t.atime - EXCLUDED.atime <= $10::interval
      AND GREATEST(0, t.level - EXCLUDED.leak_rate * (round(date_part('epoch', GREATEST(EXCLUDED.atime, t.atime) - t.atime) * 1e6) / 1e6))
          + t.held
          + CASE WHEN EXCLUDED.pre = -1 THEN EXCLUDED.level ELSE ($8::float8[])[($7::int4[])[(-1 - EXCLUDED.pre)::int4]] END
          <= EXCLUDED.capacity
    RETURNING level, atime, pre, held, key
)
SELECT a.i, w.key IS NOT NULL, COALESCE(w.level, a.level), COALESCE(w.atime, a.atime), w.pre, COALESCE(w.held, a.held),
       a.blocked_until, c.now
FROM c, asked AS a LEFT JOIN written AS w ON w.key = a.key
