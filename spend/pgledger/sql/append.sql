-- Appends entries.
INSERT INTO {{schema}}.{{entries}} (at, dated, seq, part, amount, used, held, spends, spend_amount,
                                    currency, kind, account, id, spend, tags, refused, credited)
SELECT u.at, u.dated, u.seq, u.part, u.amount, u.used, u.held, u.spends, u.spend_amount,
       u.currency, u.kind, u.account, u.id, u.spend, u.tags::jsonb, u.refused::jsonb, u.credited::jsonb
FROM (SELECT $1::timestamptz[] AS a, $2::timestamptz[] AS b, $3::bigint[] AS c, $4::bigint[] AS d,
             $5::bigint[] AS e, $6::bigint[] AS f, $7::bigint[] AS g, $8::bigint[] AS h,
             $9::bigint[] AS i, $10::text[] AS j, $11::text[] AS k, $12::text[] AS l,
             $13::text[] AS m, $14::text[] AS n, $15::text[] AS o, $16::text[] AS q,
             $17::text[] AS r OFFSET 0) AS p
     CROSS JOIN LATERAL
     unnest(p.a, p.b, p.c, p.d, p.e, p.f, p.g, p.h, p.i, p.j, p.k, p.l, p.m, p.n, p.o, p.q, p.r)
         AS u (at, dated, seq, part, amount, used, held, spends, spend_amount,
               currency, kind, account, id, spend, tags, refused, credited)
