-- Removes accounts that were created and that no job has stored.
DELETE FROM {{schema}}.{{accounts}} AS a WHERE a.id = ANY ($1::bigint[]) AND a.state IS NULL
