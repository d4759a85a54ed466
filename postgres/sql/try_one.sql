-- One TryFillup in one statement, whether the row exists, fits, refuses or is missing.
--
-- $1 key
-- $2 amount
-- $3 capacity
-- $4 leak rate
-- $5 the clock, or null for the server's
-- $6 how far ahead of the clock a stored time may be
-- $7 the lock_timeout in milliseconds, or null
--
-- The level is computed several times, because a sub-select that names it costs more.
WITH c AS MATERIALIZED (
    SELECT {{clock($5)}} AS now, {{lock_timeout($7)}}
), written AS (
    INSERT INTO {{schema}}.{{table}} AS t (level, atime, pre, held, capacity, leak_rate, key)
    SELECT $2::float8, c.now, -1, 0, $3::float8, $4::float8, $1::text
    FROM c LEFT JOIN {{schema}}.{{table}} AS s ON s.key = $1::text
    -- The snapshot may only refuse: a refusal then takes no lock and writes no WAL.
    WHERE CASE WHEN s.key IS NULL THEN $2::float8 <= $3::float8
               ELSE {{usable(s, c.now, $6, $2::float8)}}
                    AND {{fits(s, c.now, $2::float8, $3::float8)}} END
    ON CONFLICT (key) DO UPDATE SET
        level = {{leaked(t, EXCLUDED.atime)}} + EXCLUDED.level,
        pre = NULL,
        atime = {{time_to_store(t, EXCLUDED.leak_rate, EXCLUDED.atime,
                                {{leaked(t, EXCLUDED.atime)}})}},
        capacity = EXCLUDED.capacity,
        leak_rate = EXCLUDED.leak_rate
    -- The locked row decides again: others may have filled it between the snapshot and the
    -- lock.
    WHERE {{usable(t, EXCLUDED.atime, $6, EXCLUDED.level)}}
      AND {{fits(t, EXCLUDED.atime, EXCLUDED.level, EXCLUDED.capacity)}}
    RETURNING level, atime, held, capacity, leak_rate, blocked_until
)
SELECT true, {{stored(w)}}, {{instant(c.now)}} FROM c, written AS w
UNION ALL
SELECT false, {{stored(s)}}, {{instant(c.now)}}
FROM c LEFT JOIN {{schema}}.{{table}} AS s ON s.key = $1::text
WHERE NOT EXISTS (SELECT FROM written)
