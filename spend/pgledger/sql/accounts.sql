-- The accounts in $1 and those of the spends in $2, and the time: $3, or the server's. All
-- locks are held at this time.
SELECT a.key, a.state, a.next_expiry, a.watch_after, a.watch_width, c.now
FROM (SELECT {{clock($3)}} AS now OFFSET 0) AS c
     LEFT JOIN {{schema}}.{{accounts}} AS a
     ON a.key = ANY ($1::text[] || ARRAY(SELECT u.key FROM {{schema}}.{{requests}} AS r
                                         CROSS JOIN LATERAL unnest(r.accounts) AS u (key)
                                         WHERE r.id = ANY ($2::text[])))
