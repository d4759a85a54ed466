-- Removes accounts that were created and that no job stored.
DELETE FROM {{schema}}.{{accounts}} AS a WHERE a.key = ANY ($1::text[]) AND a.state IS NULL
