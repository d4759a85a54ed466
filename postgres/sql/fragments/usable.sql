-- usable(row, clock, max_skew, amount)
--
-- Whether a combined statement can decide on the row: it is not blocked, its time is not further
-- ahead of the clock than is believed, and the amount is 0 or is not lost in rounding on top of the
-- level: half the distance from the level to the next double is less than 2^-52 of it. Other rows are
-- decided under a lock by package store.
({row}.blocked_until IS NULL OR {row}.blocked_until <= GREATEST({clock}, {row}.atime))
AND ({row}.atime <= {clock} OR {row}.atime - {clock} <= {max_skew}::interval)
AND ({amount} * 4.503599627370496e15::float8 >= {row}.level OR {amount} = 0::float8)
