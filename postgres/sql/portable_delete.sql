-- Removes the row of the key $1.
DELETE FROM {{schema}}.{{table}} AS t WHERE t.key = $1::text
