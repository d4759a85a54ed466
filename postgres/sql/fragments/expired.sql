-- expired(row, past)
--
-- Whether the bucket was empty at the time past, and no answer depends on its row any more; see
-- Record.Expired in package store.
CASE WHEN {{intact({row})}} THEN
{row}.held = 0::float8 AND ({row}.leak_rate <> 0::float8 OR {row}.capacity = 0::float8) AND {row}.atime <= {past}
AND ({row}.blocked_until IS NULL OR {row}.blocked_until <= {past})
AND {{leaked({row}, {past})}} = 0::float8
ELSE false END
