-- Replaces the accounts $1. ANY has each of them looked up in the index: with the plain operator, a
-- join could read the whole table. Arrays that are unnested side by side in a target list cost less
-- than in a FROM clause, where the server buffers each of them. Arrays of arrays do not unnest row by
-- row, so the windows come as text.
UPDATE {{schema}}.{{accounts}} AS a SET pruned = u.pruned, due = u.due, rules = u.rules, watch = u.watch::bigint[], state = u.state, holds = u.holds
FROM (SELECT pg_catalog.unnest($1::bigint[]) AS id, pg_catalog.unnest($2::timestamptz[]) AS pruned,
             pg_catalog.unnest($3::timestamptz[]) AS due, pg_catalog.unnest($4::bytea[]) AS rules,
             pg_catalog.unnest($5::text[]) AS watch, pg_catalog.unnest($6::bytea[]) AS state,
             pg_catalog.unnest($7::bytea[]) AS holds) AS u
WHERE a.id = ANY (ARRAY[u.id])
