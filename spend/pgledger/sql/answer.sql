-- Stores answers. An ID that has an answer already fails the transaction, which is then decided
-- again. IDs come in byte order, so that two transactions with the same IDs do not deadlock. No
-- account has a line break in its name.
INSERT INTO {{schema}}.{{requests}} (id, at, accounts, content, answer, spend)
SELECT u.id, u.at, string_to_array(u.accounts, E'\n'), u.content, u.answer, u.spend
FROM (SELECT $1::text[] AS i, $2::timestamptz[] AS t, $3::text[] AS a, $4::bytea[] AS c,
             $5::bytea[] AS w, $6::bytea[] AS s OFFSET 0) AS p
     CROSS JOIN LATERAL unnest(p.i, p.t, p.a, p.c, p.w, p.s) WITH ORDINALITY
         AS u (id, at, accounts, content, answer, spend, n)
ORDER BY u.n
