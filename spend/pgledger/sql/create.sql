-- Creates those of the accounts in $1 that are missing. The keys are in byte order: two transactions that
-- create the same accounts do not deadlock. It waits for a transaction that is creating one of them, but
-- not for one that holds an account. ON CONFLICT alone would wait for one that has written to it. For ANY
-- see save.sql.
INSERT INTO {{schema}}.{{accounts}} (key)
SELECT u.key FROM pg_catalog.unnest($1::text[]) WITH ORDINALITY AS u (key, i)
WHERE NOT EXISTS (SELECT FROM {{schema}}.{{accounts}} AS a WHERE a.key = ANY (ARRAY[u.key])) ORDER BY u.i
ON CONFLICT (key) DO NOTHING
