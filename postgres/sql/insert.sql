-- The first amounts of buckets without a row: one element per key. It follows update_one.sql or
-- update_many.sql in one transaction, so that a statement locks rows before it makes any. It returns
-- the keys that it made; where another statement makes the same row first, DO NOTHING makes none.
--
-- A bucket that has a row costs one look into the index, and no WAL. pre has a value in a new row,
-- which makes room for the first update to stay on the page; see migrations/0001_buckets.up.sql.
--
-- $1 keys, in byte order
-- $2 levels to store
-- $3 capacities
-- $4 leak rates
-- $5 the clock, or null for the server's
-- $6 the lock_timeout in milliseconds, or null: two insertions of one key wait for each other
-- $7 the units that the buckets may contain: the capacity, or the ceiling of bookings
-- $8 the beginnings of the periods of quotas in microseconds, or null without any
INSERT INTO {{schema}}.{{table}} AS t (level, atime, pre, held, capacity, leak_rate, key)
SELECT u.level, {{started($5)}}, -1, 0, u.capacity, u.rate, u.key
FROM (SELECT $1::text[] AS k, $2::float8[] AS l, $3::float8[] AS c, $4::float8[] AS r, $7::float8[] AS m, $8::float8[] AS b
      WHERE {{lock_timeout($6)}} IS NOT NULL OFFSET 0) AS a
     CROSS JOIN LATERAL unnest(a.k, a.l, a.c, a.r, a.m, a.b) WITH ORDINALITY AS u (key, level, capacity, rate, rim, begins, i)
     -- One look into the index per key. A join could read the whole table, by a plan from the time
     -- when the table was small.
     LEFT JOIN LATERAL (SELECT true AS exists FROM {{schema}}.{{table}} AS s WHERE s.key = u.key OFFSET 0) AS s ON true
WHERE s.exists IS NULL AND u.level <= u.rim AND {{in_period({{started($5)}}, u.rate, u.begins)}}
ORDER BY u.i
ON CONFLICT (key) DO NOTHING
RETURNING t.key, {{bits(t.level)}}, {{bits(t.pre)}}, {{bits(t.held)}}, {{instant(t.atime)}}
