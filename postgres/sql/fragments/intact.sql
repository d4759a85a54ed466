-- intact(row)
--
-- Whether a call can have written the row; see Record.Validate in package store, which has the same
-- bounds. NaN is above all numbers, and infinite times are outside of all others. The statements
-- evaluate it in a CASE before anything else of the row: arithmetic on other rows can be an error, which
-- would fail the buckets beside it.
{row}.level >= 0::float8 AND {row}.level <= 8.112963841460668e31::float8
AND {row}.held >= 0::float8 AND {row}.held <= 8.112963841460668e31::float8
AND {row}.capacity >= 0::float8 AND {row}.capacity <= 9007199254740992::float8
AND ({row}.leak_rate >= 1e-12::float8 AND {row}.leak_rate <= 9007199254740992::float8
     OR {row}.leak_rate <= -1e9::float8 AND {row}.leak_rate >= -9007199254740992::float8
        AND trunc({row}.leak_rate) = {row}.leak_rate
     OR {row}.leak_rate = 0::float8 AND ({row}.capacity > 0::float8 OR {row}.level = 0::float8 AND {row}.held = 0::float8))
AND {row}.atime >= '0001-01-01 00:00:00+00'::timestamptz AND {row}.atime <= '9999-12-31 23:59:59.999999+00'::timestamptz
AND ({row}.blocked_until IS NULL OR {row}.blocked_until >= '0001-01-01 00:00:00+00'::timestamptz
                                    AND {row}.blocked_until <= '2255-06-05 23:47:34.740992+00'::timestamptz)
