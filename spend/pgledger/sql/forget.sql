-- Removes requests of accounts that start with $1 and that were decided before $2, except those
-- that began a spend of which something is still held, and the spends of the removed ones. It reads
-- the pages with requests of that age, and looks for the holds of those that it may remove, in the index
-- and in the rows of the accounts.
WITH removed AS (
    DELETE FROM {{schema}}.{{requests}} AS r
    WHERE r.at < $2
      AND starts_with((SELECT a.key FROM {{schema}}.{{accounts}} AS a WHERE a.id = r.account), $1::text)
      AND NOT EXISTS (SELECT FROM pg_catalog.unnest({{ids(r)}}) AS u (id)
                      CROSS JOIN LATERAL (
                          SELECT FROM {{schema}}.{{holds}} AS h WHERE h.account = u.id AND h.spend = r.id
                          UNION ALL
                          SELECT FROM {{schema}}.{{accounts}} AS a WHERE a.id = u.id AND position(
                              decode('fffe'::text, 'hex'::text) || set_byte(decode('00'::text, 'hex'::text), 0, octet_length(r.id)) || r.id
                              IN a.holds) > 0) AS h)
    RETURNING r.id
), changed AS (
    DELETE FROM {{schema}}.{{spends}} AS s USING removed AS d WHERE s.id = ANY (ARRAY[d.id])
)
SELECT count(*) FROM removed AS d
