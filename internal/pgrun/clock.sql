-- clock(injected)
--
-- The clock that Runner.Now injected, or the server's at this moment where that is null.
COALESCE({injected}::timestamptz, clock_timestamp())
