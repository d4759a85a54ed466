-- The rows of a sample of the table, $1 percent of its pages, and those among them that no call can have
-- written.
SELECT count(*), count(*) FILTER (WHERE NOT ({{intact(t)}}))
FROM {{schema}}.{{table}} AS t TABLESAMPLE SYSTEM ($1::float4)
