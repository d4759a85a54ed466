-- The accounts with the keys $1 and those of the spends $2. A batch appends FOR NO KEY UPDATE, which
-- locks them in this order.
SELECT a.key, a.id, {{octets(a.rules)}}, {{octets(a.state)}}, a.watch
FROM {{schema}}.{{accounts}} AS a
WHERE a.key = ANY (pg_catalog.array_cat($1::text[], ARRAY(SELECT o.key FROM {{schema}}.{{requests}} AS r
                                                          CROSS JOIN LATERAL ({{owners(r)}}) AS o
                                                          WHERE r.id = ANY ($2::bytea[]))))
ORDER BY a.key
