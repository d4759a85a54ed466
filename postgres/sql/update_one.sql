-- The normal flush of one bucket: its TryFillups, if the bucket has a row and room for all of them. It
-- returns no row where the bucket has none or refuses; insert.sql and read.sql then tell the two
-- apart. The snapshot may refuse: such a row is not locked. A statement that has waited for the
-- row decides again on the row as the holder of the lock has left it.
--
-- $1 the key
-- $2 the sum of the amounts
-- $3 the capacity
-- $4 the leak rate
-- $5 whether there are several amounts
-- $6 the clock, or null for the server's
-- $7 how far ahead of the clock a stored time may be
-- $8 the lock_timeout in milliseconds, or null
-- $9 the units that the bucket may contain: the capacity, or the ceiling of bookings
-- $10 the beginning of the period of a quota in microseconds, or null
UPDATE {{schema}}.{{table}} AS t SET
    {{filled(t, $2::float8, $3::float8, $4::float8, $5::bool, {{started($6)}})}}
WHERE t.key = $1::text
  AND {{lock_timeout($8)}} IS NOT NULL
  AND CASE WHEN {{intact(t)}}
           THEN {{usable(t, {{started($6)}}, $7, $2::float8)}}
                AND {{fits(t, {{started($6)}}, $2::float8, $9::float8)}}
                AND {{in_period(GREATEST({{started($6)}}, t.atime), $4::float8, $10::float8)}} END
RETURNING t.key, {{bits(t.level)}}, {{bits(t.pre)}}, {{bits(t.held)}}, {{instant(GREATEST(t.atime, {{started($6)}}))}}
