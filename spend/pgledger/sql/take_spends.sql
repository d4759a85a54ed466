-- take.sql for the accounts in $1 and those of the spends in $2, in byte order of key. Spends of an
-- account in $3, which another transaction holds, are left out.
SELECT a.key, {{octets(a.state)}}, a.next_expiry, a.watch_after, a.watch_width
FROM (SELECT n.key
      FROM (SELECT u.key FROM pg_catalog.unnest($1::text[]) AS u (key)
            UNION
            SELECT u.key
            FROM {{schema}}.{{requests}} AS r CROSS JOIN LATERAL pg_catalog.unnest(r.accounts) AS u (key)
            WHERE r.id = ANY ($2::text[]) AND NOT r.accounts && $3::text[]) AS n
      ORDER BY n.key COLLATE "C" OFFSET 0) AS k
     CROSS JOIN LATERAL (SELECT a.key, a.state, a.next_expiry, a.watch_after, a.watch_width
                         FROM {{schema}}.{{accounts}} AS a WHERE a.key = k.key
                         FOR NO KEY UPDATE OF a) AS a
