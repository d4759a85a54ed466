-- usable(row, clock, max_skew, amount)
--
-- Whether a combined statement can decide on the row. The row is not blocked. Its time is ahead of
-- the clock by at most max_skew. The amount is 0, or rounding does not lose it when it is added to
-- the level: half the distance from the level to the next double is less than 2^-52 of the level.
-- Package store decides other rows under a lock.
({row}.blocked_until IS NULL OR {row}.blocked_until <= GREATEST({clock}, {row}.atime))
AND {row}.atime <= {clock} + {max_skew}::interval
AND ({amount} * 4.503599627370496e15::float8 >= {row}.level OR {amount} = 0::float8)
