-- Of the names in $1, those whose rows another transaction holds, and true; and those whose rows
-- are missing, and false. A name is
--
--   "a" and the key of an account,
--   "s" and the ID of a spend, which stands for the accounts of the spend and for its request, or
--   "r" and a new ID, which nobody can hold unless its row is missing.
--
-- IDs are the hexadecimal digits of their bytes.
--
-- The names of accounts of a spend that are held come besides. The locks of the other rows end with
-- the statement.
WITH p AS MATERIALIZED (
    SELECT $1::text[] AS names,
           -- Locks are written to the log. Nobody needs them after a crash, so nobody waits for
           -- the disk.
           set_config('synchronous_commit'::text, 'off'::text, true)
), asked AS MATERIALIZED (
    SELECT u.name, left(u.name, 1) AS kind, substr(u.name, 2) AS key
    FROM (SELECT p.names FROM p OFFSET 0) AS n CROSS JOIN LATERAL pg_catalog.unnest(n.names) AS u (name)
), asked_ids AS MATERIALIZED (
    SELECT a.name, a.kind, decode(a.key, 'hex'::text) AS id FROM asked AS a WHERE a.kind <> 'a'::text
), wanted AS MATERIALIZED (
    SELECT a.name, a.key FROM asked AS a WHERE a.kind = 'a'::text
    UNION ALL
    SELECT a.name, o.key
    FROM asked_ids AS a
         CROSS JOIN LATERAL (SELECT r.account, r.also, r.more FROM {{schema}}.{{requests}} AS r
                             WHERE r.id = a.id OFFSET 0) AS r
         CROSS JOIN LATERAL ({{owners(r)}}) AS o
    WHERE a.kind = 's'::text
), free AS MATERIALIZED (
    SELECT a.key
    FROM {{schema}}.{{accounts}} AS a
    WHERE a.key = ANY (ARRAY(SELECT wanted.key FROM wanted))
    ORDER BY a.key
    FOR NO KEY UPDATE OF a SKIP LOCKED
), begun AS MATERIALIZED (
    SELECT r.id
    FROM {{schema}}.{{requests}} AS r
    WHERE r.id = ANY (ARRAY(SELECT a.id FROM asked_ids AS a WHERE a.kind = 's'::text))
    ORDER BY r.id
    FOR KEY SHARE OF r SKIP LOCKED
), found AS (
    SELECT w.name, 'a'::text || w.key AS account, EXISTS (SELECT FROM {{schema}}.{{accounts}} AS a
                                                    WHERE a.key = w.key) AS there
    FROM wanted AS w WHERE NOT EXISTS (SELECT FROM free WHERE free.key = w.key)
)
SELECT n.name, bool_or(n.there)
FROM (SELECT f.name, f.there FROM found AS f
      UNION ALL
      SELECT f.account, true FROM found AS f WHERE f.there
      UNION ALL
      SELECT a.name, r.id IS NOT NULL
      FROM asked_ids AS a LEFT JOIN {{schema}}.{{requests}} AS r ON r.id = a.id
      WHERE a.kind = 'r'::text AND r.id IS NULL
         OR a.kind = 's'::text AND r.id IS NOT NULL
            AND NOT EXISTS (SELECT FROM begun WHERE begun.id = a.id)) AS n
GROUP BY n.name
