-- Removes buckets that have leaked empty from the pages $1 to $2 of the table, or of each of its
-- partitions. It uses the time $3, or the server's, less $4, which is how far the clock might step
-- back; see Record.Expired in package store. No index helps to find them or is needed: some pages
-- are read in milliseconds. Rows that somebody has locked are in use, and are passed over. The rows
-- are deleted by their keys, because a row's place is unique within one partition only.
WITH c AS MATERIALIZED (
    SELECT {{clock($3)}} - $4::interval AS past
), expired AS (
    SELECT t.key FROM {{schema}}.{{table}} AS t, c
    WHERE t.ctid >= ('('::text || $1::int8::text || ',0)'::text)::tid AND t.ctid < ('('::text || $2::int8::text || ',0)'::text)::tid
      AND {{expired(t, c.past)}}
    FOR UPDATE OF t SKIP LOCKED
)
DELETE FROM {{schema}}.{{table}} AS t WHERE t.key = ANY (ARRAY(SELECT e.key FROM expired AS e))
