-- Entries of the accounts $1 dated after $2 and up to $3: of each account the first $4 that begin
-- something, and the first $4 that correct, each with all others of the last date.
SELECT u.id, {{columns(e)}}
FROM pg_catalog.unnest($1::bigint[]) AS u (id)
     CROSS JOIN LATERAL (
         (SELECT e.* FROM {{schema}}.{{entries}} AS e
          WHERE e.account = u.id AND e.at > $2 AND e.at <= $3 AND e.dated IS NULL
          ORDER BY e.at FETCH FIRST ($4::bigint) ROWS WITH TIES)
         UNION ALL
         (SELECT e.* FROM {{schema}}.{{entries}} AS e
          WHERE (e.account + 0::bigint) = u.id AND e.dated > $2 AND e.dated <= $3
          ORDER BY e.dated FETCH FIRST ($4::bigint) ROWS WITH TIES)
     ) AS e
