-- Open transactions that have a transaction id, and those with locks on the tables $1 of the schema
-- under which rows are locked or written: the process, or null for a prepared transaction; the
-- session or the global identifier; the identity and the id of the transaction, or null without an
-- id; whether it locks one of the tables; the user, the database, the seconds since its begin, its
-- state and its last statement, which are null without the right to see them.
--
-- Whoever waits for a lock is not the cause. The modes leave out vacuum and readers.
SELECT l.pid, p.gid, l.virtualtransaction, l.xid, l.touches, COALESCE(p.owner::text, a.usename::text, ''::text), COALESCE(p.database::text, a.datname::text, ''::text),
       extract(epoch FROM clock_timestamp() - COALESCE(p.prepared, a.xact_start))::float8, COALESCE(a.state, CASE WHEN p.gid IS NOT NULL THEN 'prepared'::text END), left(a.query, 200)
FROM (SELECT l.pid, l.virtualtransaction, min(l.transactionid::text) AS xid, bool_or(l.locktype = 'relation'::text) AS touches
      FROM pg_catalog.pg_locks AS l
      WHERE l.granted AND l.pid IS DISTINCT FROM pg_backend_pid()
            AND (l.locktype = 'transactionid'::text
                 OR l.locktype = 'relation'::text
                    AND l.database = (SELECT d.oid FROM pg_catalog.pg_database AS d WHERE d.datname = current_database())
                    AND l.mode = ANY ('{RowShareLock,RowExclusiveLock,ShareLock,ShareRowExclusiveLock,ExclusiveLock,AccessExclusiveLock}'::text[])
                    AND l.relation IN (SELECT c.oid
                                       FROM pg_catalog.pg_class AS c
                                       WHERE c.relnamespace = (SELECT n.oid FROM pg_catalog.pg_namespace AS n WHERE n.nspname = {{'schema'}})
                                             AND (c.relname::text = ANY ($1::text[])
                                                  OR c.oid IN (SELECT i.inhrelid FROM pg_catalog.pg_inherits AS i
                                                               WHERE i.inhparent IN (SELECT t.oid FROM pg_catalog.pg_class AS t
                                                                                     WHERE t.relnamespace = c.relnamespace AND t.relname::text = ANY ($1::text[]))))))
            AND l.virtualtransaction NOT IN (SELECT w.virtualtransaction FROM pg_catalog.pg_locks AS w WHERE NOT w.granted)
      GROUP BY l.pid, l.virtualtransaction) AS l
     LEFT JOIN pg_catalog.pg_prepared_xacts AS p ON p.transaction::text = l.xid AND l.pid IS NULL
     LEFT JOIN pg_catalog.pg_stat_activity AS a ON a.pid = l.pid
WHERE a.backend_type IS DISTINCT FROM 'autovacuum worker'::text AND (a.wait_event IS NULL OR a.wait_event <> 'SyncRep'::text)
ORDER BY 1, 3
