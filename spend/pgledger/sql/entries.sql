-- Entries of the accounts $1 dated after $2 and up to $3, but for those up to the times $5: of each
-- account the first $4 that begin something, and the first $4 that correct, each with all others of the
-- last date. No entry is dated after its time, which tells the server the partitions to read.
SELECT u.id, {{columns(e)}}
FROM (SELECT pg_catalog.unnest($1::bigint[]) AS id, pg_catalog.unnest($5::timestamptz[]) AS pruned) AS u
     CROSS JOIN LATERAL (
         (SELECT e.* FROM {{schema}}.{{entries}} AS e
          WHERE e.account = u.id AND e.at > $2 AND e.at > COALESCE(u.pruned, $2) AND e.at <= $3 AND e.dated IS NULL
          ORDER BY e.at FETCH FIRST ($4::bigint) ROWS WITH TIES)
         UNION ALL
         (SELECT e.* FROM {{schema}}.{{entries}} AS e
          WHERE (e.account + 0::bigint) = u.id AND e.dated > $2 AND e.dated <= $3 AND e.at > $2 AND e.at > COALESCE(u.pruned, $2)
          ORDER BY e.dated FETCH FIRST ($4::bigint) ROWS WITH TIES)
     ) AS e
