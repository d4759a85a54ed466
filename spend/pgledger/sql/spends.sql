-- Replaces spends. All of their accounts are locked, so no other transaction replaces them.
INSERT INTO {{schema}}.{{spends}} (id, spend)
SELECT pg_catalog.unnest($1::bytea[]), pg_catalog.unnest($2::bytea[])
ON CONFLICT (id) DO UPDATE SET spend = EXCLUDED.spend
