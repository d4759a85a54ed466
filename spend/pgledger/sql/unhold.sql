-- Removes holds that have ended. For ANY see save.sql.
DELETE FROM {{schema}}.{{holds}} AS h
USING (SELECT pg_catalog.unnest($1::bigint[]) AS account, pg_catalog.unnest($2::timestamptz[]) AS expires,
              pg_catalog.unnest($3::bytea[]) AS spend) AS u
WHERE h.account = ANY (ARRAY[u.account]) AND h.expires = ANY (ARRAY[u.expires]) AND h.spend = ANY (ARRAY[u.spend])
