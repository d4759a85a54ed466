-- The time, $2 or the server's, whether a commit waits for a synchronous standby, and the answers to the
-- IDs in $1, if there are any. Behind them are the newest rules of the budgets $3, without the text if
-- their digest is the one in $4. When a batch sends this statement, it holds all locks. No lock protects
-- rules: only a snapshot that is taken under the locks of accounts has all rules by which earlier decisions
-- on these accounts went. ORDER BY and LIMIT have the server read one row, at the end of the index.
SELECT {{instant(c.now)}}, c.waits, {{request(r)}}, {{no_rules()}}
FROM (SELECT {{clock($2)}} AS now,
             current_setting('synchronous_standby_names'::text) <> ''::text
             AND current_setting('synchronous_commit'::text) NOT IN ('off'::text, 'local'::text)
             AND NOT pg_is_in_recovery() AS waits OFFSET 0) AS c
     LEFT JOIN {{schema}}.{{requests}} AS r ON r.id = ANY ($1::bytea[])
UNION ALL
SELECT NULL, false, NULL, NULL, NULL, NULL, NULL, NULL,
       {{revision(r, CASE WHEN r.digest IS DISTINCT FROM k.digest THEN r.rules END)}}
FROM (SELECT pg_catalog.unnest($3::text[]) AS budget, pg_catalog.unnest($4::bytea[]) AS digest) AS k
     CROSS JOIN LATERAL (SELECT r.* FROM {{schema}}.{{rules}} AS r WHERE r.budget = k.budget ORDER BY r.seq DESC LIMIT 1) AS r
