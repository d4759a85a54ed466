-- One TryFillup: one statement, whether the row exists, fits, refuses or is not there.
--
-- $1 key  $2 amount  $3 capacity  $4 leak rate  $5 the clock, or null for the server's  $6 how far ahead a stored time may be
--
-- leaked = greatest(0, level - leak_rate * elapsed), elapsed = whole microseconds / 1e6, never below 0. date_part of an interval
-- is a double that can be off in its last bit; rounding to microseconds makes it the double that Go computes. The expression
-- stands here several times because that is cheaper than a sub-select that names it.
WITH c AS MATERIALIZED (
    SELECT COALESCE($5::timestamptz, clock_timestamp()) AS now
), written AS (
    INSERT INTO {{schema}}.{{table}} AS t (level, atime, pre, held, capacity, leak_rate, key)
    SELECT $2::float8, c.now, -1, 0, $3::float8, $4::float8, $1::text
    FROM c LEFT JOIN {{schema}}.{{table}} AS s ON s.key = $1::text
    -- The snapshot decides only what is not worth trying: a refusal so takes no lock and writes no WAL.
    WHERE CASE WHEN s.key IS NULL THEN $2::float8 <= $3::float8
               ELSE (s.blocked_until IS NULL OR s.blocked_until <= GREATEST(c.now, s.atime))
                    AND s.atime - c.now <= $6::interval
                    AND GREATEST(0, s.level - $4::float8 * (round(date_part('epoch', GREATEST(c.now, s.atime) - s.atime) * 1e6) / 1e6))
                        + s.held + $2::float8 <= $3::float8 END
    ON CONFLICT (key) DO UPDATE SET
        level = GREATEST(0, t.level - EXCLUDED.leak_rate * (round(date_part('epoch', GREATEST(EXCLUDED.atime, t.atime) - t.atime) * 1e6) / 1e6))
                + EXCLUDED.level,
        pre = NULL,
        -- A waiter's clock is older than what the holder of the row lock wrote: time must not go back. And where the leak was
        -- too small to change the level the time stays, so that small leaks add up.
        atime = CASE WHEN t.level > 0 AND EXCLUDED.leak_rate > 0
                      AND t.level = t.level - EXCLUDED.leak_rate * (round(date_part('epoch', GREATEST(EXCLUDED.atime, t.atime) - t.atime) * 1e6) / 1e6)
                     THEN t.atime ELSE GREATEST(EXCLUDED.atime, t.atime) END,
        capacity = EXCLUDED.capacity,
        leak_rate = EXCLUDED.leak_rate
    -- Decided again on the locked row: between the snapshot and the lock others may have filled it.
    WHERE (t.blocked_until IS NULL OR t.blocked_until <= GREATEST(EXCLUDED.atime, t.atime))
      AND t.atime - EXCLUDED.atime <= $6::interval
      AND GREATEST(0, t.level - EXCLUDED.leak_rate * (round(date_part('epoch', GREATEST(EXCLUDED.atime, t.atime) - t.atime) * 1e6) / 1e6))
          + t.held + EXCLUDED.level <= EXCLUDED.capacity
    RETURNING level, atime, held, blocked_until
)
SELECT true AS written, w.level, w.atime, w.held, w.blocked_until, c.now FROM c, written AS w
UNION ALL
SELECT false, s.level, s.atime, s.held, s.blocked_until, c.now
FROM c LEFT JOIN {{schema}}.{{table}} AS s ON s.key = $1::text
WHERE NOT EXISTS (SELECT FROM written)
