-- take.sql in a transaction of the application, which cannot be decided again. It creates the
-- missing accounts, and returns those. The update never happens, but its row is locked. One pass
-- creates and locks in one order, so that no two decisions wait for each other.
INSERT INTO {{schema}}.{{accounts}} AS a (key)
SELECT k.key
FROM (SELECT u.key FROM pg_catalog.unnest($1::text[]) AS u (key)
      UNION
      SELECT u.key
      FROM {{schema}}.{{requests}} AS r CROSS JOIN LATERAL pg_catalog.unnest(r.accounts) AS u (key)
      WHERE r.id = ANY ($2::text[])) AS k
ORDER BY k.key COLLATE "C"
ON CONFLICT (key) DO UPDATE SET next_expiry = a.next_expiry WHERE false
RETURNING key
