-- Creates the accounts in $1, which are in byte order: two transactions that create the same
-- accounts do not deadlock. It waits for a transaction that is creating one of them.
INSERT INTO {{schema}}.{{accounts}} (key)
SELECT u.key FROM pg_catalog.unnest($1::text[]) WITH ORDINALITY AS u (key, i) ORDER BY u.i
ON CONFLICT (key) DO NOTHING
