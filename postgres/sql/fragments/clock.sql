-- clock(injected)
--
-- The injected clock, or the server's at this moment where that is null.
COALESCE({injected}::timestamptz, clock_timestamp())
