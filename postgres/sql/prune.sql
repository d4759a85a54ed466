-- Removes what has leaked empty from the pages $1 to $2 of the table, by the time $3, or the server's, less $4, how far the
-- clock might step back. No index helps or is needed: a slice of pages is read in milliseconds. Rows that somebody has locked are in
-- use and are passed over. See Record.Expired in package store.
WITH c AS MATERIALIZED (
    SELECT COALESCE($3::timestamptz, clock_timestamp()) - $4::interval AS past
), expired AS (
    SELECT t.ctid FROM {{schema}}.{{table}} AS t, c
    WHERE t.ctid >= format('(%s,0)', $1::int8)::tid AND t.ctid < format('(%s,0)', $2::int8)::tid
      AND t.held = 0 AND t.leak_rate > 0 AND t.atime <= c.past
      AND (t.blocked_until IS NULL OR t.blocked_until <= c.past)
      AND t.level <= t.leak_rate * (round(date_part('epoch', c.past - t.atime) * 1e6) / 1e6)
    FOR UPDATE OF t SKIP LOCKED
)
DELETE FROM {{schema}}.{{table}} AS t USING expired WHERE t.ctid = expired.ctid
