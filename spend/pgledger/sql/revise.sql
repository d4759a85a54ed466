-- Appends rules. A seq that the budget has already fails the transaction, which is then decided again.
-- Rows come in the order of the primary key, so that two transactions with rules of the same budgets do
-- not deadlock.
INSERT INTO {{schema}}.{{rules}} (budget, seq, revision, at, held, "by", reason, digest, rules)
SELECT pg_catalog.unnest($1::text[]), pg_catalog.unnest($2::bigint[]), pg_catalog.unnest($3::bigint[]),
       pg_catalog.unnest($4::timestamptz[]), pg_catalog.unnest($5::boolean[]), pg_catalog.unnest($6::text[]),
       pg_catalog.unnest($7::text[]), pg_catalog.unnest($8::bytea[]), pg_catalog.unnest($9::text[])
