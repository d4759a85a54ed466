-- The time: $1, or the server's. It names no table, so a sharding engine reads the clock of the
-- server that got the statement, and never those of the servers that have the rows.
SELECT {{clock($1)}}
