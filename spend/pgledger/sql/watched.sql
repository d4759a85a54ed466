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
    SELECT a.key, u.after AS edge, u.width,
           timestamptz 'epoch' + u.after::float8 * interval '1 microsecond' AS after,
           c.now - u.width::float8 * interval '1 microsecond' AS upto
    FROM c, {{schema}}.{{accounts}} AS a
         CROSS JOIN LATERAL unnest(a.watch_after, a.watch_width) AS u (after, width)
    WHERE a.key = ANY ($1::text[] || ARRAY(SELECT o.key FROM {{schema}}.{{requests}} AS r
                                           CROSS JOIN LATERAL pg_catalog.unnest(r.accounts) AS o (key)
                                           WHERE r.id = ANY ($4::text[])))
)
SELECT w.key, w.edge, w.width, e.*
FROM w CROSS JOIN LATERAL (
    (SELECT false AS later, {{columns(e)}} FROM {{schema}}.{{entries}} AS e
     WHERE e.account = w.key AND e.at > w.after AND e.at <= w.upto AND e.part = e.seq
     ORDER BY e.at, e.seq LIMIT $3)
    UNION ALL
    (SELECT false, {{columns(e)}} FROM {{schema}}.{{entries}} AS e
     WHERE (e.account || '') = w.key AND e.dated > w.after AND e.dated <= w.upto
       AND e.part <> e.seq
     ORDER BY e.dated, e.seq LIMIT $3)
    UNION ALL
    (SELECT true, {{columns(e)}} FROM {{schema}}.{{entries}} AS e
     WHERE e.account = w.key AND e.at > w.upto AND e.part = e.seq
     ORDER BY e.at, e.seq LIMIT 1)
    UNION ALL
    (SELECT true, {{columns(e)}} FROM {{schema}}.{{entries}} AS e
     WHERE (e.account || '') = w.key AND e.dated > w.upto AND e.part <> e.seq
     ORDER BY e.dated, e.seq LIMIT 1)
) AS e
WHERE w.after < w.upto
