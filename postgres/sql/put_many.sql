-- Amounts that go in whether they fit or not, of one or many callers in one statement: one
-- element per key, keys in byte order.
--
-- $1 keys
-- $2 capacities
-- $3 leak rates
-- $4, $5, $6 per key, applied in this order: drained in all, added past the rim, added up to
--    the rim
-- $7 level to store where the row is missing, or null where there is then nothing to write
-- $8 the clock, or null for the server's
-- $9 how far ahead of the clock a stored time may be
-- $10 the lock_timeout in milliseconds, or null
--
-- The key's number travels in pre, which is negative in a new row.
WITH c AS MATERIALIZED (
    SELECT {{clock($8)}} AS now, {{lock_timeout($10)}}
), asked AS MATERIALIZED (
    SELECT u.key, u.new_capacity, u.new_rate, u.drained, u.added, u.clamped, u.fresh, u.i, s.key IS NULL AS absent,
           s.level, s.atime, s.held, s.capacity, s.leak_rate, s.blocked_until
    FROM (SELECT $1::text[] AS k, $2::float8[] AS c, $3::float8[] AS r, $4::float8[] AS d,
                 $5::float8[] AS a, $6::float8[] AS n, $7::float8[] AS f OFFSET 0) AS a
         CROSS JOIN LATERAL unnest(a.k, a.c, a.r, a.d, a.a, a.n, a.f) WITH ORDINALITY
             AS u (key, new_capacity, new_rate, drained, added, clamped, fresh, i)
         LEFT JOIN LATERAL (SELECT s.key, s.level, s.atime, s.held, s.capacity, s.leak_rate, s.blocked_until
                            FROM {{schema}}.{{table}} AS s WHERE s.key = u.key OFFSET 0) AS s ON true
), written AS (
    INSERT INTO {{schema}}.{{table}} AS t (level, atime, pre, held, capacity, leak_rate, key)
    SELECT COALESCE(a.fresh, 0), c.now, -a.i, 0, a.new_capacity, a.new_rate, a.key
    FROM asked AS a, c
    -- A drain of an empty bucket writes nothing. Another statement decides where this one must not.
    WHERE CASE WHEN a.absent THEN a.fresh IS NOT NULL
               ELSE {{usable(a, c.now, $9, (a.added + a.clamped))}}
                    AND (a.added > 0 OR a.clamped > 0 OR {{leaked(a, c.now)}} > 0) END
    ORDER BY a.i
    ON CONFLICT (key) DO UPDATE SET (level, pre, atime, capacity, leak_rate) = (
        SELECT CASE WHEN n = 0 THEN x
                    WHEN x + t.held + n <= EXCLUDED.capacity THEN x + n
                    ELSE GREATEST(x, EXCLUDED.capacity - t.held) END,
               leaked,
               {{time_to_store(t, EXCLUDED.leak_rate, EXCLUDED.atime, leaked)}},
               EXCLUDED.capacity, EXCLUDED.leak_rate
        FROM (SELECT leaked, GREATEST(0, leaked - ($4::float8[])[i]) + ($5::float8[])[i] AS x,
                     ($6::float8[])[i] AS n
              FROM (SELECT {{leaked(t, EXCLUDED.atime)}} AS leaked,
                           (-EXCLUDED.pre)::int4 AS i OFFSET 0) AS s1 OFFSET 0) AS s2)
    WHERE {{usable(t, EXCLUDED.atime, $9, (($5::float8[])[(-EXCLUDED.pre)::int4] + ($6::float8[])[(-EXCLUDED.pre)::int4]))}}
    RETURNING level, atime, pre, held, key
)
SELECT a.i, w.key IS NOT NULL, {{bits(w.pre)}}, {{instant(c.now)}}, {{stored(d)}}
FROM c, asked AS a LEFT JOIN written AS w ON w.key = a.key
     CROSS JOIN LATERAL (SELECT COALESCE(w.level, a.level) AS level, COALESCE(w.atime, a.atime) AS atime,
                                COALESCE(w.held, a.held) AS held, a.capacity, a.leak_rate, a.blocked_until) AS d
