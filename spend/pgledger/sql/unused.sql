-- Removes accounts that lock.sql created and no job stored.
DELETE FROM {{schema}}.{{accounts}} AS a WHERE a.key = ANY ($1::text[]) AND a.state IS NULL
