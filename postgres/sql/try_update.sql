-- TryFillups of one bucket that has a row, and room for all of them: the cheapest statement for
-- this case. It returns nothing where the row is missing or refuses. The caller then sends
-- try_one.sql or try_many.sql, which tell the two apart, and sends only those where refusals
-- are frequent. A row that refuses by the snapshot is not locked. A waiter decides again on the
-- row as the holder of the lock has left it.
--
-- $1 to $7 as in try_one.sql; $2 is the sum of all amounts
-- $8 whether there are several amounts: then each caller's answer needs the level before, which
--    RETURNING does not know before PostgreSQL 18
UPDATE {{schema}}.{{table}} AS t SET
    level = {{leaked(t, {{started($5)}})}} + $2::float8,
    pre = CASE WHEN $8::bool THEN {{leaked(t, {{started($5)}})}} END,
    atime = {{time_to_store(t, $4::float8, {{started($5)}}, {{leaked(t, {{started($5)}})}})}},
    capacity = $3::float8,
    leak_rate = $4::float8
WHERE t.key = $1::text
  AND {{lock_timeout($7)}} IS NOT NULL
  AND {{usable(t, {{started($5)}}, $6, $2::float8)}}
  AND {{fits(t, {{started($5)}}, $2::float8, $3::float8)}}
RETURNING {{bits(t.level)}}, {{instant(t.atime)}}, {{bits(t.pre)}}, {{bits(t.held)}}, {{instant({{started($5)}})}}
