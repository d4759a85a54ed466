-- Removes the requests $1 and their spends, before others take their IDs. All of their accounts are
-- locked.
WITH removed AS (DELETE FROM {{schema}}.{{requests}} AS r WHERE r.id = ANY ($1::bytea[]))
DELETE FROM {{schema}}.{{spends}} AS s WHERE s.id = ANY ($1::bytea[])
