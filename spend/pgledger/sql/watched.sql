-- The entries that are about to leave the windows of the accounts with the keys $1 and of those of the
-- spends $4, at the time $2, or the server's. They are read ahead, so that a decision needs no round
-- trip of its own for them. Of each window from which any may leave, it returns the first $3 entries
-- of each part of entries.sql, due or not: until the first that is not due leaves, no decision looks. A
-- job asks for the rest. Microseconds become times exactly, since they are far below 2^53.
SELECT a.key, u.i, a.watch[u.i], {{listed(e)}}
FROM {{schema}}.{{accounts}} AS a
     CROSS JOIN LATERAL generate_series(1, pg_catalog.cardinality(a.watch) - 1, 2) AS u (i)
     CROSS JOIN LATERAL (
         (SELECT false AS corrects, e.* FROM {{schema}}.{{entries}} AS e
          WHERE e.account = a.id
            AND e.at > GREATEST(a.pruned, timestamptz 'epoch' + a.watch[u.i]::float8 * interval '1 microsecond')
          ORDER BY e.at, e.seq LIMIT $3::bigint)
         UNION ALL
         (SELECT true, e.* FROM {{schema}}.{{entries}} AS e
          WHERE (e.account + 0::bigint) = a.id
            AND e.dated > timestamptz 'epoch' + a.watch[u.i]::float8 * interval '1 microsecond'
            AND e.at > GREATEST(a.pruned, timestamptz 'epoch' + a.watch[u.i]::float8 * interval '1 microsecond')
          ORDER BY e.dated, e.seq LIMIT $3::bigint)
     ) AS e
WHERE a.key = ANY ({{keys($4)}})
  AND timestamptz 'epoch' + (a.watch[u.i] + a.watch[u.i + 1])::float8 * interval '1 microsecond' < {{clock($2)}}
