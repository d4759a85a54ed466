-- Stores the accounts of a batch, its entries, its answers and the holds that it opens, and returns
-- the server's clock. One statement costs much less than four, and arrays that are unnested side by
-- side in a target list cost less than in a FROM clause, where the server buffers each of them.
--
-- Accounts are locked in the order of $1, which is byte order of key. Where the batch has locked
-- them before, $6 and $33 are null. Otherwise the batch decided on accounts that it remembered. Then
-- $6 has their states, and $33 is the reading of the server's clock by which it decided. The
-- division fails if an account has another state by now, or if the reading is not of the last
-- second. Nothing has been inserted by then.
--
-- An ID that has an answer already fails the transaction, which is then decided again. IDs come in
-- byte order, so that two transactions with the same IDs do not deadlock. No account has a line
-- break in its name. Arrays of arrays do not unnest row by row, so the windows come as text. ANY has
-- each key looked up in the index: with the plain operator, a join could read the whole table.
WITH saved AS (
    UPDATE {{schema}}.{{accounts}} AS a
    SET state = u.state, next_expiry = u.next_expiry,
        watch_after = u.watch_after::bigint[], watch_width = u.watch_width::bigint[]
    FROM (SELECT pg_catalog.unnest($1::text[]) AS key, pg_catalog.unnest($2::bytea[]) AS state,
                 pg_catalog.unnest($3::bigint[]) AS next_expiry, pg_catalog.unnest($4::text[]) AS watch_after,
                 pg_catalog.unnest($5::text[]) AS watch_width, pg_catalog.unnest($6::bytea[]) AS before) AS u
    WHERE a.key = ANY (ARRAY[u.key]) AND (u.before IS NULL OR a.state = u.before)
    RETURNING a.key
), appended AS (
    -- Of a column with one value for all rows, the array is null and the value has a parameter of
    -- its own: $34 to $41. Of a column that repeats another one, the array may be null, too.
    INSERT INTO {{schema}}.{{entries}} (at, dated, seq, part, amount, used, held, spends,
                                        spend_amount, currency, kind, account, id, spend,
                                        tags, refused, credited)
    SELECT COALESCE(u.at, $34::timestamptz), COALESCE(u.dated, u.at, $34::timestamptz), u.seq,
           COALESCE(u.part, u.seq), u.amount, COALESCE(u.used, $35::bigint),
           COALESCE(u.held, $36::bigint), COALESCE(u.spends, $37::bigint),
           COALESCE(u.spend_amount, u.amount), COALESCE(u.currency, $38::text),
           COALESCE(u.kind, $39::text), u.account, u.id, COALESCE(u.spend, u.id),
           u.tags::jsonb, u.refused::jsonb, u.credited::jsonb
    FROM (SELECT pg_catalog.unnest($7::timestamptz[]) AS at, pg_catalog.unnest($8::timestamptz[]) AS dated,
                 pg_catalog.unnest($9::bigint[]) AS seq, pg_catalog.unnest($10::bigint[]) AS part,
                 pg_catalog.unnest($11::bigint[]) AS amount, pg_catalog.unnest($12::bigint[]) AS used,
                 pg_catalog.unnest($13::bigint[]) AS held, pg_catalog.unnest($14::bigint[]) AS spends,
                 pg_catalog.unnest($15::bigint[]) AS spend_amount, pg_catalog.unnest($16::text[]) AS currency,
                 pg_catalog.unnest($17::text[]) AS kind, pg_catalog.unnest($18::text[]) AS account,
                 pg_catalog.unnest($19::text[]) AS id, pg_catalog.unnest($20::text[]) AS spend,
                 pg_catalog.unnest($21::text[]) AS tags, pg_catalog.unnest($22::text[]) AS refused,
                 pg_catalog.unnest($23::text[]) AS credited) AS u
), answered AS (
    INSERT INTO {{schema}}.{{requests}} (id, at, accounts, content, answer, spend)
    SELECT u.id, COALESCE(u.at, $40::timestamptz), string_to_array(u.accounts, E'\n'), u.content, u.answer, u.spend
    FROM (SELECT pg_catalog.unnest($24::text[]) AS id, pg_catalog.unnest($25::timestamptz[]) AS at,
                 pg_catalog.unnest($26::text[]) AS accounts, pg_catalog.unnest($27::bytea[]) AS content,
                 pg_catalog.unnest($28::bytea[]) AS answer, pg_catalog.unnest($29::bytea[]) AS spend) AS u
), opened AS (
    INSERT INTO {{schema}}.{{holds}} (account, expires, spend)
    SELECT u.account, COALESCE(u.expires, $41::timestamptz), u.spend
    FROM (SELECT pg_catalog.unnest($30::text[]) AS account, pg_catalog.unnest($31::timestamptz[]) AS expires,
                 pg_catalog.unnest($32::text[]) AS spend) AS u
)
SELECT {{instant(c.now)}}, 1 / CASE WHEN c.saved = COALESCE(pg_catalog.cardinality($1::text[]), 0)
                            AND ($33::timestamptz IS NULL
                                 OR $33::timestamptz <= c.now
                                    AND c.now - $33::timestamptz <= interval '1 second')
                       THEN 1 ELSE 0 END
FROM (SELECT n.saved, clock_timestamp() AS now
      FROM (SELECT count(*) AS saved FROM saved AS s OFFSET 0) AS n OFFSET 0) AS c
