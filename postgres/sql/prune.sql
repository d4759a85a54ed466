-- Removes buckets that have leaked empty from the pages $1 to $2 of the table. It uses the time
-- $3, or the server's, less $4, which is how far the clock might step back; see Record.Expired
-- in package store. No index helps or is needed: some pages are read in milliseconds. Rows that
-- somebody has locked are in use, and are passed over.
WITH c AS MATERIALIZED (
    SELECT {{clock($3)}} - $4::interval AS past
), expired AS (
    SELECT t.ctid FROM {{schema}}.{{table}} AS t, c
    WHERE t.ctid >= format('(%s,0)', $1::int8)::tid AND t.ctid < format('(%s,0)', $2::int8)::tid
      AND t.held = 0 AND t.leak_rate > 0 AND t.atime <= c.past
      AND (t.blocked_until IS NULL OR t.blocked_until <= c.past)
      AND {{leaked(t, t.leak_rate, c.past)}} = 0
    FOR UPDATE OF t SKIP LOCKED
)
DELETE FROM {{schema}}.{{table}} AS t USING expired WHERE t.ctid = expired.ctid
