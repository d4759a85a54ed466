-- The accounts of the spends in $1. They never change, so they are read before they are locked.
SELECT {{octets(r.id)}}, o.key FROM {{schema}}.{{requests}} AS r CROSS JOIN LATERAL ({{owners(r)}}) AS o
WHERE r.id = ANY ($1::bytea[])
