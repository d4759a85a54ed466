-- The time, $2 or the server's, whether a commit waits for a synchronous standby, and the answers to the
-- IDs in $1, if there are any. When a batch sends this statement, it holds all locks.
SELECT {{instant(c.now)}}, c.waits, {{request(r)}}
FROM (SELECT {{clock($2)}} AS now,
             current_setting('synchronous_standby_names'::text) <> ''::text
             AND current_setting('synchronous_commit'::text) NOT IN ('off'::text, 'local'::text)
             AND NOT pg_is_in_recovery() AS waits OFFSET 0) AS c
     LEFT JOIN {{schema}}.{{requests}} AS r ON r.id = ANY ($1::bytea[])
