-- Entries of the account $1 dated after $2 and up to $3: at most $4 that begin something, and
-- $4 that correct.
(SELECT {{columns(e)}} FROM {{schema}}.{{entries}} AS e
 WHERE e.account = $1 AND e.at > $2 AND e.at <= $3 AND e.dated IS NULL
 ORDER BY e.at, e.seq LIMIT $4)
UNION ALL
(SELECT {{columns(e)}} FROM {{schema}}.{{entries}} AS e
 WHERE (e.account + 0::bigint) = $1 AND e.dated > $2 AND e.dated <= $3
 ORDER BY e.dated, e.seq LIMIT $4)
