-- Locks the requests $1, which began spends, so that no other transaction deletes them before this
-- one ends. With SKIP LOCKED, it leaves out the requests that another transaction has locked.
SELECT {{octets(r.id)}} FROM {{schema}}.{{requests}} AS r WHERE r.id = ANY ($1::bytea[]) ORDER BY r.id
FOR KEY SHARE{{skip}}
