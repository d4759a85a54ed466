-- time_to_store(row, rate, clock, leaked)
--
-- The time that goes with a level that leaked from the row's, and with the rate that is written now.
-- It never goes back: a waiter's clock is older than the time that the holder of the row lock wrote.
-- Where the leak was too small to change the level, the time stays, so that small leaks add up; but
-- not under another rate, at which the time would leak again.
--
-- The first case saves the leak, and mostly decides: a microsecond leaks more than 1e-15 of the
-- level, which changes the level, because a double has 53 bits.
CASE WHEN {row}.atime < {clock} AND {row}.level < {rate} * 1e9::float8 THEN {clock}
     WHEN {row}.level > 0::float8 AND {row}.leak_rate = {rate} AND {rate} > 0::float8 AND {leaked} = {row}.level THEN {row}.atime
     ELSE GREATEST({clock}, {row}.atime) END
