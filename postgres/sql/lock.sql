-- Locks the rows that transactions of several operations need, and creates the missing ones. The
-- update never happens, but its row is locked. One pass creates and locks in byte order of key, so
-- that no two statements wait for each other.
--
-- A transaction that the snapshot refuses locks nothing, so that a refusal writes nothing. The
-- caller decides it on the rows as it reads them, and calls again without refusals where it finds
-- that the transaction fits by now.
--
-- $1 per operation: the key
-- $2 the number of its transaction
-- $3 the units that must fit, or null where the operation is never refused here
-- $4 the capacity, or the ceiling where that is less
-- $5 the leak rate
-- $6 the clock, or null for the server's
-- $7 how far ahead of the clock a stored time may be
-- $8 the lock_timeout in milliseconds, or null
-- $9 the idle_in_transaction_session_timeout, likewise
--
-- Returns the keys of the rows that it created, and the numbers of the transactions that it refused.
WITH c AS MATERIALIZED (
    SELECT {{clock($6)}} AS now, {{lock_timeout($8)}}, {{idle_timeout($9)}}
), asked AS MATERIALIZED (
    SELECT u.key, u.txn,
           u.need IS NOT NULL
           AND CASE WHEN s.key IS NULL THEN u.need > u.capacity
                    ELSE s.atime - c.now <= $7::interval
                         AND (s.leak_rate = u.rate OR u.need > u.capacity)  -- else the refusal settles the bucket
                         AND (s.blocked_until > GREATEST(c.now, s.atime)
                              OR NOT {{fits(s, c.now, u.need, u.capacity)}}) END AS refused
    FROM c
         CROSS JOIN (SELECT $1::text[] AS k, $2::int4[] AS t, $3::float8[] AS n, $4::float8[] AS c,
                            $5::float8[] AS r OFFSET 0) AS a
         CROSS JOIN LATERAL unnest(a.k, a.t, a.n, a.c, a.r) AS u (key, txn, need, capacity, rate)
         LEFT JOIN LATERAL (SELECT s.key, s.level, s.atime, s.held, s.leak_rate, s.blocked_until
                            FROM {{schema}}.{{table}} AS s WHERE s.key = u.key OFFSET 0) AS s ON true
), refused AS MATERIALIZED (
    SELECT DISTINCT a.txn FROM asked AS a WHERE a.refused
), created AS (
    INSERT INTO {{schema}}.{{table}} AS t (level, atime, pre, held, capacity, leak_rate, key)
    SELECT 0, c.now, 0, 0, 0, 0, k.key
    FROM c CROSS JOIN (SELECT DISTINCT a.key FROM asked AS a
                       WHERE NOT EXISTS (SELECT FROM refused AS r WHERE r.txn = a.txn)) AS k
    ORDER BY k.key COLLATE "C"
    ON CONFLICT (key) DO UPDATE SET level = t.level WHERE false
    RETURNING key
)
SELECT w.key, NULL::int4 FROM created AS w
UNION ALL
SELECT NULL, r.txn FROM refused AS r
