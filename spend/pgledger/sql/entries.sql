-- Entries of the accounts $1 dated after $2 and up to $3: of each account at most $4 that begin
-- something, and $4 that correct.
SELECT u.id, {{columns(e)}}
FROM pg_catalog.unnest($1::bigint[]) AS u (id)
     CROSS JOIN LATERAL (
         (SELECT e.* FROM {{schema}}.{{entries}} AS e
          WHERE e.account = u.id AND e.at > $2 AND e.at <= $3 AND e.dated IS NULL
          ORDER BY e.at, e.seq LIMIT $4)
         UNION ALL
         (SELECT e.* FROM {{schema}}.{{entries}} AS e
          WHERE (e.account + 0::bigint) = u.id AND e.dated > $2 AND e.dated <= $3
          ORDER BY e.dated, e.seq LIMIT $4)
     ) AS e
