-- Removes entries that no rule needs any more. For ANY see save.sql.
DELETE FROM {{schema}}.{{entries}} AS e
USING (SELECT pg_catalog.unnest($1::bigint[]) AS account, pg_catalog.unnest($2::timestamptz[]) AS at) AS u
WHERE e.account = ANY (ARRAY[u.account]) AND e.at <= u.at
