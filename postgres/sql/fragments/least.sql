-- least(offsets, sums)
--
-- The smallest amount of the group of a new row in try_many.sql.
CASE WHEN EXCLUDED.pre = -1 THEN EXCLUDED.level
     ELSE ({sums}::float8[])[({offsets}::int4[])[(-1 - EXCLUDED.pre)::int4]] END
