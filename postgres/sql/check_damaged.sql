-- The keys of the rows that no call can have written, for operators: a remedy contains the statement.
SELECT t.key FROM {{schema}}.{{table}} AS t
WHERE NOT ({{intact(t)}})
