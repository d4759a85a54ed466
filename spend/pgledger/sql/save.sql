-- Stores accounts whose rows are locked. Arrays of arrays do not unnest row by row, so
-- the windows come as text. ANY has each key looked up in the index: with the plain operator, a
-- join could read the whole table.
UPDATE {{schema}}.{{accounts}} AS a
SET state = u.state, next_expiry = u.next_expiry,
    watch_after = u.watch_after::bigint[], watch_width = u.watch_width::bigint[]
FROM (SELECT $1::text[] AS k, $2::bytea[] AS s, $3::bigint[] AS n, $4::text[] AS a,
             $5::text[] AS w OFFSET 0) AS p
     CROSS JOIN LATERAL unnest(p.k, p.s, p.n, p.a, p.w)
         AS u (key, state, next_expiry, watch_after, watch_width)
WHERE a.key = ANY (ARRAY[u.key])
