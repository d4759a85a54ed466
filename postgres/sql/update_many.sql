-- update_one.sql for several buckets: one element per key. A row that is missing or refuses is not
-- returned.
--
-- The server looks each key up in the order of the array, so the statement locks rows in byte order
-- of key, like every other. ANY keeps the server from joining in another way: with the plain
-- operator it could read the whole table in the order of its pages. EXPLAIN shows a nested loop over
-- the keys, on a partitioned table as well.
--
-- $1 keys, in byte order, none twice
-- $2 sums of the amounts
-- $3 capacities
-- $4 leak rates
-- $5 to $8 as in update_one.sql
-- $9 the units that the buckets may contain
-- $10 the beginnings of the periods of quotas, or null without any
UPDATE {{schema}}.{{table}} AS t SET
    {{filled(t, u.amount, u.capacity, u.rate, $5::bool, {{started($6)}})}}
-- The arrays come through a sub-select so that the planner does not count their elements: it would
-- make a new plan for every length instead of keeping one.
FROM (SELECT $1::text[] AS k, $2::float8[] AS n, $3::float8[] AS c, $4::float8[] AS r, $9::float8[] AS m, $10::float8[] AS b
      WHERE {{lock_timeout($8)}} IS NOT NULL OFFSET 0) AS a
     CROSS JOIN LATERAL unnest(a.k, a.n, a.c, a.r, a.m, a.b) AS u (key, amount, capacity, rate, rim, begins)
WHERE t.key = ANY (ARRAY[u.key])
  AND CASE WHEN {{intact(t)}}
           THEN {{usable(t, {{started($6)}}, $7, u.amount)}}
                AND {{fits(t, {{started($6)}}, u.amount, u.rim)}}
                AND {{in_period(GREATEST({{started($6)}}, t.atime), u.rate, u.begins)}} END
RETURNING t.key, {{bits(t.level)}}, {{bits(t.pre)}}, {{bits(t.held)}}, {{instant(GREATEST(t.atime, {{started($6)}}))}}
