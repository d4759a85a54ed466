-- Entries of the accounts $1, of each after the entry $3 of the date $2, and dated up to $4: the first $5
-- by time, also those that correct, and the first $5 corrections by date. Each part is in the order of an
-- index, so the server reads no other entry. No entry is dated after its time, which tells the server the
-- partitions to read.
SELECT u.id, {{listed(e)}}
FROM (SELECT pg_catalog.unnest($1::bigint[]) AS id, pg_catalog.unnest($2::timestamptz[]) AS date, pg_catalog.unnest($3::bigint[]) AS seq) AS u
     CROSS JOIN LATERAL (
         (SELECT false AS corrects, e.* FROM {{schema}}.{{entries}} AS e
          WHERE e.account = u.id AND e.at >= u.date AND (e.at, e.seq) > (u.date, u.seq) AND e.at <= $4
          ORDER BY e.at, e.seq LIMIT $5::bigint)
         UNION ALL
         (SELECT true, e.* FROM {{schema}}.{{entries}} AS e
          WHERE (e.account + 0::bigint) = u.id AND e.at >= u.date AND (e.dated, e.seq) > (u.date, u.seq) AND e.dated <= $4
          ORDER BY e.dated, e.seq LIMIT $5::bigint)
     ) AS e
