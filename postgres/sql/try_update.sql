-- TryFillups of one bucket that has a row, and room for them all: the cheapest statement there is for it. Nothing is returned where
-- the row is missing or refuses; the caller then asks with try_one.sql or try_many.sql, which tell the two apart, and turns to those
-- altogether where that is frequent. A row that refuses by the snapshot is not locked, and a waiter decides again on the row as
-- the holder of the lock has left it.
--
-- $1 to $6 as in try_one.sql, the amount being the sum of all, and the same arithmetic  $7 whether there are several: then each
-- caller's answer needs what was in it before, which RETURNING does not know before PostgreSQL 18
--
-- statement_timestamp() is the clock when the server got the statement: one reading for all of it, without the sub-select that
-- clock_timestamp() needs for that.
UPDATE {{schema}}.{{table}} AS t SET
    level = GREATEST(0, t.level - $4::float8 * (round(date_part('epoch', GREATEST(COALESCE($5::timestamptz, statement_timestamp()), t.atime) - t.atime) * 1e6) / 1e6)) + $2::float8,
    pre = CASE WHEN $7::bool THEN GREATEST(0, t.level - $4::float8 * (round(date_part('epoch', GREATEST(COALESCE($5::timestamptz, statement_timestamp()), t.atime) - t.atime) * 1e6) / 1e6)) END,
    atime = CASE WHEN t.level > 0 AND $4::float8 > 0
                  AND t.level = t.level - $4::float8 * (round(date_part('epoch', GREATEST(COALESCE($5::timestamptz, statement_timestamp()), t.atime) - t.atime) * 1e6) / 1e6)
                 THEN t.atime ELSE GREATEST(COALESCE($5::timestamptz, statement_timestamp()), t.atime) END,
    capacity = $3::float8,
    leak_rate = $4::float8
WHERE t.key = $1::text
  AND (t.blocked_until IS NULL OR t.blocked_until <= GREATEST(COALESCE($5::timestamptz, statement_timestamp()), t.atime))
  AND t.atime - COALESCE($5::timestamptz, statement_timestamp()) <= $6::interval
  AND GREATEST(0, t.level - $4::float8 * (round(date_part('epoch', GREATEST(COALESCE($5::timestamptz, statement_timestamp()), t.atime) - t.atime) * 1e6) / 1e6))
      + t.held + $2::float8 <= $3::float8
RETURNING t.level, t.atime, t.pre, t.held, COALESCE($5::timestamptz, statement_timestamp())
