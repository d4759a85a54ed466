-- Locks the requests $1, which began spends: nobody removes them before the spends are stored. With
-- SKIP LOCKED, it leaves out those that another transaction holds.
SELECT {{octets(r.id)}} FROM {{schema}}.{{requests}} AS r WHERE r.id = ANY ($1::bytea[]) ORDER BY r.id
FOR KEY SHARE{{skip}}
