-- The accounts in $1 and those of the spends in $2.
SELECT a.key, {{octets(a.state)}}, a.next_expiry, a.watch_after, a.watch_width
FROM {{schema}}.{{accounts}} AS a
WHERE a.key = ANY ($1::text[] || ARRAY(SELECT u.key FROM {{schema}}.{{requests}} AS r
                                       CROSS JOIN LATERAL pg_catalog.unnest(r.accounts) AS u (key)
                                       WHERE r.id = ANY ($2::text[])))
