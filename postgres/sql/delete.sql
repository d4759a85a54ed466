-- Removes the keys in $1, locking them in byte order as everybody does.
WITH doomed AS (
    SELECT key FROM {{schema}}.{{table}} WHERE key = ANY ($1::text[]) ORDER BY key FOR UPDATE
)
DELETE FROM {{schema}}.{{table}} AS t USING doomed WHERE t.key = doomed.key
