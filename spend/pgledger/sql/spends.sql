-- Replaces spends. All of their accounts are locked, so no other transaction replaces them. INSERT ...
-- ON CONFLICT would write to the log that a row was inserted, and that it stays.
WITH u AS MATERIALIZED (
    SELECT pg_catalog.unnest($1::bytea[]) AS id, pg_catalog.unnest($2::bytea[]) AS spend
), replaced AS (
    UPDATE {{schema}}.{{spends}} AS s SET spend = u.spend FROM u WHERE s.id = ANY (ARRAY[u.id]) RETURNING s.id
)
INSERT INTO {{schema}}.{{spends}} (id, spend)
SELECT u.id, u.spend FROM u WHERE NOT EXISTS (SELECT FROM replaced AS r WHERE r.id = u.id)
