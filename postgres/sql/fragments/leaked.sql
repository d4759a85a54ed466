-- leaked(row, clock)
--
-- The level of the row after the leak, in the same operations on doubles as Record.LevelAt in
-- package store: level less the rate last written times the whole microseconds since atime / 1e6,
-- never below 0 and never for a clock that went back. date_part of an interval is a double that can
-- be off in its last bit; rounding to microseconds makes it the double that Go computes.
-- A rate below 0 is the end of a period in microseconds: then all leaves at once.
CASE WHEN {row}.leak_rate < 0::float8
     THEN CASE WHEN {clock} <= {row}.atime OR {{micros(GREATEST({clock}, {row}.atime))}} < -{row}.leak_rate THEN {row}.level ELSE 0::float8 END
     ELSE GREATEST(0::float8, {row}.level - {row}.leak_rate * (
    round(date_part('epoch'::text, GREATEST({clock}, {row}.atime) - {row}.atime) * 1e6::float8) / 1e6::float8)) END
