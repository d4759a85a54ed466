-- Of the keys in $1, those whose rows another transaction holds, and true; and those without a
-- row, and false. The locks of the other rows end with the statement.
WITH a AS MATERIALIZED (
    SELECT $1::text[] AS k,
           -- Locks are written to the log. Nobody needs them after a crash, so nobody waits for
           -- the disk.
           set_config('synchronous_commit', 'off', true)
), free AS MATERIALIZED (
    SELECT t.key
    FROM {{schema}}.{{table}} AS t
    WHERE t.key = ANY ((SELECT a.k FROM a)::text[])
    ORDER BY t.key
    FOR NO KEY UPDATE OF t SKIP LOCKED
)
SELECT u.key, s.key IS NOT NULL
FROM (SELECT a.k FROM a OFFSET 0) AS p
     CROSS JOIN LATERAL unnest(p.k) AS u (key)
     LEFT JOIN LATERAL (SELECT s.key FROM {{schema}}.{{table}} AS s
                        WHERE s.key = u.key OFFSET 0) AS s ON true
WHERE NOT EXISTS (SELECT FROM free WHERE free.key = u.key)
