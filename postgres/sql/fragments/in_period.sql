-- in_period(time, rate, begins)
--
-- Whether the time is in the period of a quota of the calendar: from begins, in microseconds, up to
-- the end, which is the negative rate. A leak rate has no period, and begins may be null.
({rate} >= 0::float8 OR {{micros({time})}} >= {begins} AND {{micros({time})}} < -{rate})
