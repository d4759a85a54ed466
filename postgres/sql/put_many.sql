-- What goes in whether it fits or not, of one or many callers: one statement, one element per key, keys in byte order.
--
-- $1 keys  $2 capacities  $3 leak rates  per key, in this order: $4 drained in all  $5 added past the rim  $6 added up to the rim
-- $7 level if there is no such row, or null where there is then nothing to write
-- $8 the clock, or null for the server's  $9 how far ahead a stored time may be
--
-- See try_one.sql for the arithmetic. The key's number travels in pre, which a new row shows as negative.
WITH c AS MATERIALIZED (
    SELECT COALESCE($8::timestamptz, clock_timestamp()) AS now
), asked AS MATERIALIZED (
    SELECT u.key, u.capacity, u.leak_rate, u.drained, u.added, u.clamped, u.fresh, u.i,
           s.level, s.atime, s.held, s.blocked_until, s.key IS NULL AS absent
    FROM (SELECT $1::text[] AS k, $2::float8[] AS c, $3::float8[] AS r, $4::float8[] AS d, $5::float8[] AS a, $6::float8[] AS n, $7::float8[] AS f OFFSET 0) AS a
         CROSS JOIN LATERAL unnest(a.k, a.c, a.r, a.d, a.a, a.n, a.f) WITH ORDINALITY AS u (key, capacity, leak_rate, drained, added, clamped, fresh, i)
         LEFT JOIN {{schema}}.{{table}} AS s ON s.key = u.key
), written AS (
    INSERT INTO {{schema}}.{{table}} AS t (level, atime, pre, held, capacity, leak_rate, key)
    SELECT COALESCE(a.fresh, 0), c.now, -a.i, 0, a.capacity, a.leak_rate, a.key
    FROM asked AS a, c
    -- A drain of an empty bucket writes nothing. A blocked bucket, and a time that is not believed, are for another statement.
    WHERE CASE WHEN a.absent THEN a.fresh IS NOT NULL
               ELSE (a.blocked_until IS NULL OR a.blocked_until <= GREATEST(c.now, a.atime))
                    AND a.atime - c.now <= $9::interval
                    AND (a.added > 0 OR a.clamped > 0
                         OR a.level > a.leak_rate * (round(date_part('epoch', GREATEST(c.now, a.atime) - a.atime) * 1e6) / 1e6)) END
    ORDER BY a.i
    ON CONFLICT (key) DO UPDATE SET (level, pre, atime, capacity, leak_rate) = (
        SELECT CASE WHEN n = 0 THEN x WHEN x + t.held + n <= EXCLUDED.capacity THEN x + n ELSE GREATEST(x, EXCLUDED.capacity - t.held) END,
               leaked,
               CASE WHEN t.level > 0 AND EXCLUDED.leak_rate > 0 AND leaked = t.level THEN t.atime ELSE GREATEST(EXCLUDED.atime, t.atime) END,
               EXCLUDED.capacity, EXCLUDED.leak_rate
        FROM (SELECT leaked, GREATEST(0, leaked - ($4::float8[])[i]) + ($5::float8[])[i] AS x, ($6::float8[])[i] AS n
              FROM (SELECT GREATEST(0, t.level - EXCLUDED.leak_rate
                                         * (round(date_part('epoch', GREATEST(EXCLUDED.atime, t.atime) - t.atime) * 1e6) / 1e6)) AS leaked,
                           (-EXCLUDED.pre)::int4 AS i OFFSET 0) AS s1 OFFSET 0) AS s2)
    WHERE (t.blocked_until IS NULL OR t.blocked_until <= GREATEST(EXCLUDED.atime, t.atime))
      AND t.atime - EXCLUDED.atime <= $9::interval
    RETURNING level, atime, pre, held, key
)
SELECT a.i, w.key IS NOT NULL, COALESCE(w.level, a.level), COALESCE(w.atime, a.atime), w.pre, COALESCE(w.held, a.held),
       a.blocked_until, c.now
FROM c, asked AS a LEFT JOIN written AS w ON w.key = a.key
