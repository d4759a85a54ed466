-- Removes buckets that have leaked empty from the pages $1 to $2 of the table, or of each of its
-- partitions. It uses the time $3, or the server's, less $4, which is how far the clock might step
-- back; see Record.Expired in package store. No index helps to find them or is needed: some pages
-- are read in milliseconds. Rows that somebody has locked are in use, and are passed over. The rows
-- are deleted by their keys, because a row's place is unique within one partition only.
--
-- $5 is the key of an advisory lock, or null. The transaction of another process may have the lock: the
-- statement then removes nothing, and returns false beside the number of removed rows. The lock ends with
-- the transaction, so it works through a pooler.
WITH c AS MATERIALIZED (
    SELECT {{clock($3)}} - $4::interval AS past, CASE WHEN $5::int8 IS NULL THEN true ELSE pg_try_advisory_xact_lock($5::int8) END AS mine
), expired AS (
    SELECT t.key FROM c, {{schema}}.{{table}} AS t
    WHERE c.mine AND t.ctid >= ('('::text || $1::int8::text || ',0)'::text)::tid AND t.ctid < ('('::text || $2::int8::text || ',0)'::text)::tid
      AND {{expired(t, c.past)}}
    FOR UPDATE OF t SKIP LOCKED
), removed AS (
    DELETE FROM {{schema}}.{{table}} AS t WHERE t.key = ANY (ARRAY(SELECT e.key FROM expired AS e)) RETURNING t.key
)
SELECT c.mine, (SELECT count(*) FROM removed) FROM c
