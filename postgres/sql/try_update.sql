-- One TryFillup of a bucket that has a row and room: the cheapest statement there is for it. Nothing is returned where the row is
-- missing or refuses; the caller then asks with try_one.sql, which tells the two apart, and turns to that statement altogether
-- where that is frequent. A row that refuses by the snapshot is not locked, and a waiter decides again on the row as the holder of
-- the lock has left it.
--
-- Parameters as in try_one.sql, and the same arithmetic.
UPDATE {{schema}}.{{table}} AS t SET
    level = GREATEST(0, t.level - $4::float8 * (round(date_part('epoch', GREATEST(c.now, t.atime) - t.atime) * 1e6) / 1e6)) + $2::float8,
    atime = CASE WHEN t.level > 0 AND $4::float8 > 0
                  AND t.level = t.level - $4::float8 * (round(date_part('epoch', GREATEST(c.now, t.atime) - t.atime) * 1e6) / 1e6)
                 THEN t.atime ELSE GREATEST(c.now, t.atime) END,
    capacity = $3::float8,
    leak_rate = $4::float8
FROM (SELECT COALESCE($5::timestamptz, clock_timestamp()) AS now OFFSET 0) AS c  -- OFFSET 0: the clock is read once
WHERE t.key = $1::text
  AND (t.blocked_until IS NULL OR t.blocked_until <= GREATEST(c.now, t.atime))
  AND t.atime - c.now <= $6::interval
  AND GREATEST(0, t.level - $4::float8 * (round(date_part('epoch', GREATEST(c.now, t.atime) - t.atime) * 1e6) / 1e6))
      + t.held + $2::float8 <= $3::float8
RETURNING t.level, t.atime, t.held, c.now
