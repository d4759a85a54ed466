-- Locks the rows that transactions need, and then creates the missing ones, both in byte order of
-- key. Whoever waits for a row has created none yet, and whoever waits for a creation waits for one
-- behind its own, so no two statements wait for each other, save where docs/internals/postgres.md says so.
--
-- A transaction that the snapshot refuses locks nothing, so that a refusal writes nothing; neither
-- does a drain of a bucket that is empty, or one that a damaged row fails. The caller decides it on the rows as it reads them, and
-- calls again without refusals where it finds that the transaction fits by now.
--
-- {{skip}} is empty, or SKIP LOCKED after a statement has waited in vain: rows that another
-- transaction holds are left out. It is not the usual form, because it also leaves out rows that
-- another process is merely committing.
--
-- $1 per operation: the key
-- $2 the number of its transaction
-- $3 the units that must fit, a negative number for a drain, or null where the row must be locked
-- $4 the ceiling, or the capacity where there is none
-- $5 the leak rate, or null where a refusal sets a penalty
-- $6 the clock, or null for the server's
-- $7 how far ahead of the clock a stored time may be
-- $8 the lock_timeout in milliseconds, or null
-- $9 the idle_in_transaction_session_timeout, likewise
--
-- Returns the keys of the rows that it holds, and whether it created the row; and the numbers of the
-- transactions that it refused.
WITH c AS MATERIALIZED (
    SELECT {{clock($6)}} AS now, {{lock_timeout($8)}}, {{idle_timeout($9)}}
), asked AS MATERIALIZED (
    SELECT u.key, u.txn, s.key IS NULL AS absent,
           u.need IS NOT NULL
           AND CASE WHEN s.key IS NULL THEN u.need < 0::float8 OR u.rate IS NOT NULL AND u.need > u.capacity
                    WHEN NOT ({{intact(s)}}) THEN true
                    WHEN u.need < 0::float8 THEN s.atime - c.now <= $7::interval AND {{leaked(s, c.now)}} = 0::float8
                    ELSE s.atime - c.now <= $7::interval
                         -- A block refuses without a look at the rest, and the refusal writes nothing. Where there
                         -- is none, the refusal may write a penalty, or another rate.
                         AND (COALESCE(s.blocked_until > GREATEST(c.now, s.atime), false)
                              OR u.rate IS NOT NULL AND (s.leak_rate = u.rate OR u.need > u.capacity)
                                 AND NOT {{fits(s, c.now, u.need, u.capacity)}}) END AS refused
    FROM c
         CROSS JOIN (SELECT $1::text[] AS k, $2::int4[] AS t, $3::float8[] AS n, $4::float8[] AS c,
                            $5::float8[] AS r OFFSET 0) AS a
         CROSS JOIN LATERAL unnest(a.k, a.t, a.n, a.c, a.r) AS u (key, txn, need, capacity, rate)
         LEFT JOIN LATERAL (SELECT s.* FROM {{schema}}.{{table}} AS s WHERE s.key = u.key OFFSET 0) AS s ON true
), refused AS MATERIALIZED (
    SELECT DISTINCT a.txn FROM asked AS a WHERE a.refused
), wanted AS MATERIALIZED (
    SELECT DISTINCT a.key, a.absent FROM asked AS a
    WHERE NOT EXISTS (SELECT FROM refused AS r WHERE r.txn = a.txn)
), locked AS MATERIALIZED (
    SELECT t.key
    FROM (SELECT w.key FROM wanted AS w WHERE NOT w.absent ORDER BY w.key COLLATE "C" OFFSET 0) AS w
         CROSS JOIN LATERAL (SELECT t.key FROM {{schema}}.{{table}} AS t WHERE t.key = w.key
                             FOR NO KEY UPDATE {{skip}}) AS t
), created AS (
    INSERT INTO {{schema}}.{{table}} AS t (level, atime, pre, held, capacity, leak_rate, key)
    -- The count has all rows locked first.
    SELECT 0, c.now, -1, 0, 0, 0, w.key
    FROM c CROSS JOIN (SELECT count(*) FROM locked OFFSET 0) AS first CROSS JOIN wanted AS w
    WHERE w.absent
    ORDER BY w.key COLLATE "C"
    ON CONFLICT (key) DO NOTHING
    RETURNING key
)
SELECT w.key, true, NULL::int4 FROM created AS w
UNION ALL
SELECT l.key, false, NULL FROM locked AS l
UNION ALL
SELECT NULL, NULL, r.txn FROM refused AS r
