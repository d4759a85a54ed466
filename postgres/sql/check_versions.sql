-- The version of the tables, and whether a migration was cut short.
SELECT v.version, v.dirty FROM {{schema}}.{{versions}} AS v LIMIT 1
