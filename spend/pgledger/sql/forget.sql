-- Removes at most 2,000 requests of accounts that start with $1 and that were decided from $3 on and before
-- $2, except those that began a spend of which something is still held, and the spends of the removed ones.
-- It returns their number and the latest of their times. It reads the pages with requests of that age, and
-- looks for the holds of those that it may remove, in the index and in the rows of the accounts.
WITH old AS MATERIALIZED (
    SELECT r.id FROM {{schema}}.{{requests}} AS r
    WHERE r.at < $2 AND r.at >= $3
      AND starts_with((SELECT a.key FROM {{schema}}.{{accounts}} AS a WHERE a.id = r.account), $1::text)
      AND NOT EXISTS (SELECT FROM pg_catalog.unnest({{ids(r)}}) AS u (id)
                      CROSS JOIN LATERAL (
                          SELECT FROM {{schema}}.{{holds}} AS h WHERE h.account = u.id AND h.spend = r.id
                          UNION ALL
                          SELECT FROM {{schema}}.{{accounts}} AS a WHERE a.id = u.id AND position(
                              decode('fffe'::text, 'hex'::text) || set_byte(decode('00'::text, 'hex'::text), 0, octet_length(r.id)) || r.id
                              IN a.holds) > 0) AS h)
), part AS MATERIALIZED (
    SELECT o.id FROM old AS o LIMIT 2000 -- in the scan itself, it would have the server read the whole table
), removed AS (
    DELETE FROM {{schema}}.{{requests}} AS r USING part AS o WHERE r.id = ANY (ARRAY[o.id]) AND r.at < $2 RETURNING r.id, r.at
), changed AS (
    DELETE FROM {{schema}}.{{spends}} AS s USING removed AS d WHERE s.id = ANY (ARRAY[d.id])
)
SELECT count(*), {{instant(max(d.at))}} FROM removed AS d
