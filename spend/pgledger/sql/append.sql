-- Appends entries.
INSERT INTO {{schema}}.{{entries}} (account, at, seq, used, held, amount, dated, part, spend_amount, asked, least, ttl, expires, kind,
                                    spends, pending, currency, id, spend, tags, refused, credited)
SELECT u.account, u.at, u.seq, u.used, u.held, u.amount, u.dated, u.part, u.spend_amount, u.asked, u.least, u.ttl, u.expires, u.kind,
       u.spends, u.pending, u.currency, u.id, u.spend, u.tags::jsonb, u.refused::jsonb, u.credited::jsonb
FROM (SELECT pg_catalog.unnest($1::bigint[]) AS account, pg_catalog.unnest($2::timestamptz[]) AS at,
             pg_catalog.unnest($3::bigint[]) AS seq, pg_catalog.unnest($4::bigint[]) AS used,
             pg_catalog.unnest($5::bigint[]) AS held, pg_catalog.unnest($6::bigint[]) AS amount,
             pg_catalog.unnest($7::timestamptz[]) AS dated, pg_catalog.unnest($8::bigint[]) AS part,
             pg_catalog.unnest($9::bigint[]) AS spend_amount, pg_catalog.unnest($10::bigint[]) AS asked,
             pg_catalog.unnest($11::bigint[]) AS least, pg_catalog.unnest($12::bigint[]) AS ttl,
             pg_catalog.unnest($13::timestamptz[]) AS expires, pg_catalog.unnest($14::smallint[]) AS kind,
             pg_catalog.unnest($15::smallint[]) AS spends, pg_catalog.unnest($16::smallint[]) AS pending,
             pg_catalog.unnest($17::text[]) AS currency, pg_catalog.unnest($18::bytea[]) AS id,
             pg_catalog.unnest($19::bytea[]) AS spend, pg_catalog.unnest($20::text[]) AS tags,
             pg_catalog.unnest($21::text[]) AS refused, pg_catalog.unnest($22::text[]) AS credited) AS u
