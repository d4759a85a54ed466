-- started(injected)
--
-- The injected clock, or the time at which the server got the statement where that is null: one
-- reading for all of the statement, without the sub-select that clock() needs for that.
COALESCE({injected}::timestamptz, statement_timestamp())
