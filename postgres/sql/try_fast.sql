-- The TryFillups of many callers where hardly any is refused: try_many.sql without its look at the snapshot, which costs as much
-- again as half of the rest. What does not fit is not returned, though its row has been locked for nothing: the caller asks for it
-- again with try_many.sql, and turns to that statement altogether where refusals are frequent.
--
-- Parameters as in try_many.sql, the clock as in try_update.sql.
INSERT INTO {{schema}}.{{table}} AS t (level, atime, pre, held, capacity, leak_rate, key)
SELECT u.fresh, COALESCE($9::timestamptz, statement_timestamp()), -1 - u.grp, 0, u.capacity, u.leak_rate, u.key
FROM (SELECT $1::text[] AS k, $2::float8[] AS c, $3::float8[] AS r, $4::float8[] AS l, $5::float8[] AS f, $6::int4[] AS g OFFSET 0) AS a
     CROSS JOIN LATERAL unnest(a.k, a.c, a.r, a.l, a.f, a.g) WITH ORDINALITY AS u (key, capacity, leak_rate, least, fresh, grp, i)
WHERE u.least <= u.capacity
ORDER BY u.i
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
RETURNING key, level, atime, pre, held, COALESCE($9::timestamptz, statement_timestamp())
