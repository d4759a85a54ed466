-- usable(row, clock, max_skew)
--
-- Whether a combined statement can decide on the row: it is not blocked, and its time is not
-- further ahead of the clock than is believed. Other rows are decided under a lock by package
-- store.
({row}.blocked_until IS NULL OR {row}.blocked_until <= GREATEST({clock}, {row}.atime))
AND ({row}.atime <= {clock} OR {row}.atime - {clock} <= {max_skew}::interval)
