-- Removes the rows of the keys in $1. It locks them in byte order, like every other statement.
WITH doomed AS (
    SELECT key FROM {{schema}}.{{table}} WHERE key = ANY ($1::text[]) ORDER BY key FOR UPDATE
)
DELETE FROM {{schema}}.{{table}} AS t USING doomed WHERE t.key = doomed.key
