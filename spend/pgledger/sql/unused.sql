-- Removes accounts that were created for nothing.
DELETE FROM {{schema}}.{{accounts}} AS a WHERE a.key = ANY ($1::text[]) AND a.state IS NULL
