-- Stores the answers to IDs. An ID that has an answer already fails the transaction, which is then
-- decided again. IDs come in the order of their texts, so that two transactions with the same IDs do
-- not deadlock.
INSERT INTO {{schema}}.{{requests}} (id, at, account, also, more, content, answer, spend)
SELECT u.id, u.at, u.account, u.also, u.more::bigint[], u.content, u.answer, u.spend
FROM (SELECT pg_catalog.unnest($1::bytea[]) AS id, pg_catalog.unnest($2::timestamptz[]) AS at,
             pg_catalog.unnest($3::bigint[]) AS account, pg_catalog.unnest($4::bigint[]) AS also,
             pg_catalog.unnest($5::text[]) AS more, pg_catalog.unnest($6::bytea[]) AS content,
             pg_catalog.unnest($7::bytea[]) AS answer, pg_catalog.unnest($8::bytea[]) AS spend) AS u
