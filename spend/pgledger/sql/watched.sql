-- The entries that are about to leave the windows of the accounts in $1 and of those of the spends
-- in $4, at the time $2, or the server's. They are read ahead, so that a decision needs no round
-- trip of its own for them. Of each window it returns at most $3 entries of each kind; a job asks
-- for the rest. Where any may leave, it returns the first later entry of each kind, too: until that
-- one leaves, no decision looks. The later entries also tell how far the others are complete, even
-- if the clock has stepped since the decision's time was read. Microseconds become times exactly,
-- since they are far below 2^53.
WITH c AS MATERIALIZED (
    SELECT {{clock($2)}} AS now
), w AS MATERIALIZED (
    SELECT a.id, a.key, a.watch[u.i] AS edge, a.watch[u.i + 1] AS width,
           timestamptz 'epoch' + a.watch[u.i]::float8 * interval '1 microsecond' AS after,
           c.now - a.watch[u.i + 1]::float8 * interval '1 microsecond' AS upto
    FROM c, {{schema}}.{{accounts}} AS a
         CROSS JOIN LATERAL generate_series(1, pg_catalog.cardinality(a.watch) - 1, 2) AS u (i)
    WHERE a.key = ANY (pg_catalog.array_cat($1::text[], ARRAY(SELECT o.key FROM {{schema}}.{{requests}} AS r
                                                              CROSS JOIN LATERAL ({{owners(r)}}) AS o
                                                              WHERE r.id = ANY ($4::bytea[]))))
)
SELECT w.key, w.edge, w.width, e.*
FROM w CROSS JOIN LATERAL (
    (SELECT false AS later, {{columns(e)}} FROM {{schema}}.{{entries}} AS e
     WHERE e.account = w.id AND e.at > w.after AND e.at <= w.upto AND e.dated IS NULL
     ORDER BY e.at, e.seq LIMIT $3)
    UNION ALL
    (SELECT false, {{columns(e)}} FROM {{schema}}.{{entries}} AS e
     WHERE (e.account + 0::bigint) = w.id AND e.dated > w.after AND e.dated <= w.upto
     ORDER BY e.dated, e.seq LIMIT $3)
    UNION ALL
    (SELECT true, {{columns(e)}} FROM {{schema}}.{{entries}} AS e
     WHERE e.account = w.id AND e.at > w.upto AND e.dated IS NULL
     ORDER BY e.at, e.seq LIMIT 1)
    UNION ALL
    (SELECT true, {{columns(e)}} FROM {{schema}}.{{entries}} AS e
     WHERE (e.account + 0::bigint) = w.id AND e.dated > w.upto
     ORDER BY e.dated, e.seq LIMIT 1)
) AS e
WHERE w.after < w.upto
