-- Locks the accounts in $1, which come in byte order of key, and returns them as they are when they
-- are locked. A missing account is not locked: create.sql fails if another transaction has created
-- it meanwhile, and the batch is decided again.
SELECT k.key, {{octets(a.state)}}, a.next_expiry, a.watch_after, a.watch_width
FROM (SELECT pg_catalog.unnest($1::text[]) AS key) AS k
     CROSS JOIN LATERAL (SELECT a.state, a.next_expiry, a.watch_after, a.watch_width
                         FROM {{schema}}.{{accounts}} AS a WHERE a.key = k.key
                         FOR NO KEY UPDATE OF a) AS a
