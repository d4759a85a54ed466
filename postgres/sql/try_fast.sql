-- The TryFillups of many callers whose buckets have rows, and room for all of them: the cheapest
-- statement for this case. It returns the keys that it filled. A row that is missing or refuses is
-- not returned. The caller then sends try_many.sql, which tells the two apart, and sends only that
-- statement where refusals are frequent.
--
-- The statement must read the rows by the index: then it locks them in byte order of key, like
-- every other statement. The caller sends it by Runner.QueryByIndex, and not to a partitioned
-- table, which has an index per partition.
--
-- Every expression reads the target row t and parameters alone. A statement that waited for a row
-- evaluates them again on the row as the holder of the lock has left it.
--
-- $1 keys, in byte order, none twice
-- $2, $3 sum of the amounts: one for all keys, or null and one per key
-- $4, $5 capacities, likewise
-- $6, $7 leak rates, likewise
-- $8 whether a key has several amounts: then each caller's answer needs the level before, which
--    RETURNING does not know before PostgreSQL 18
-- $9 the clock, or null for the server's
-- $10 how far ahead of the clock a stored time may be
-- $11 the lock_timeout in milliseconds, or null
UPDATE {{schema}}.{{table}} AS t SET
    level = {{leaked(t, {{started($9)}})}} + {{of_key($2, $3)}},
    pre = CASE WHEN $8::bool THEN {{leaked(t, {{started($9)}})}} END,
    atime = {{time_to_store(t, {{of_key($6, $7)}}, {{started($9)}}, {{leaked(t, {{started($9)}})}})}},
    capacity = {{of_key($4, $5)}},
    leak_rate = {{of_key($6, $7)}}
-- The sub-select hides the length of the array from the planner, which would otherwise make a new
-- plan for every length instead of keeping one. It is evaluated once, before the first row.
WHERE t.key = ANY ((SELECT CASE WHEN {{lock_timeout($11)}} IS NOT NULL THEN $1::text[] END)::text[])
  AND {{usable(t, {{started($9)}}, $10, {{of_key($2, $3)}})}}
  AND {{fits(t, {{started($9)}}, {{of_key($2, $3)}}, {{of_key($4, $5)}})}}
RETURNING t.key, {{bits(t.level)}}, {{bits(t.pre)}}, {{bits(t.held)}}, {{instant(GREATEST(t.atime, {{started($9)}}))}}
