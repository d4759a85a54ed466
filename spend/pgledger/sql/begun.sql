-- Locks the requests $1, which began spends: nobody removes them before the spends are stored.
SELECT r.at FROM {{schema}}.{{requests}} AS r WHERE r.id = ANY ($1::bytea[]) ORDER BY r.id FOR KEY SHARE
