-- Opens holds.
INSERT INTO {{schema}}.{{holds}} (account, expires, spend)
SELECT pg_catalog.unnest($1::bigint[]), pg_catalog.unnest($2::timestamptz[]), pg_catalog.unnest($3::bytea[])
