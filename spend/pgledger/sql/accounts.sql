-- The working sets of the accounts in $1 and of the spends in $2, and the time, $3 or the server's: a time at which all locks
-- were held.
SELECT a.key, a.state, a.next_expiry, a.watch_after, a.watch_width, c.now
FROM (SELECT COALESCE($3::timestamptz, clock_timestamp()) AS now OFFSET 0) AS c
     LEFT JOIN {{schema}}.{{accounts}} AS a
     ON a.key = ANY ($1::text[] || ARRAY(SELECT u.key FROM {{schema}}.{{requests}} AS r
                                         CROSS JOIN LATERAL unnest(r.accounts) AS u (key) WHERE r.id = ANY ($2::text[])))
