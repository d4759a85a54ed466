-- The accounts with the keys $1 and those of the spends $2. A batch appends FOR NO KEY UPDATE, which
-- locks them in this order. With SKIP LOCKED, it leaves out those that another transaction holds.
SELECT a.key, a.id, {{instant(a.pruned)}}, {{instant(a.due)}}, {{octets(a.rules)}}, {{octets(a.state)}}, a.watch, {{octets(a.holds)}}
FROM {{schema}}.{{accounts}} AS a
WHERE a.key = ANY (pg_catalog.array_cat($1::text[], ARRAY(SELECT o.key FROM {{schema}}.{{requests}} AS r
                                                          CROSS JOIN LATERAL ({{owners(r)}}) AS o
                                                          WHERE r.id = ANY ($2::bytea[]))))
ORDER BY a.key
