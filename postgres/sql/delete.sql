-- Removes the rows of the keys in $1. It locks them in byte order, like every other statement.
-- $2 is the lock_timeout in milliseconds, or null.
WITH doomed AS (
    SELECT t.key
    FROM (SELECT {{lock_timeout($2)}} OFFSET 0) AS bounded, {{schema}}.{{table}} AS t
    WHERE t.key = ANY ($1::text[]) ORDER BY t.key FOR UPDATE OF t
)
DELETE FROM {{schema}}.{{table}} AS t WHERE t.key = ANY (ARRAY(SELECT d.key FROM doomed AS d))
