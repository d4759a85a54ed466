-- check_process.sql as a prepared statement, which a pooler may forget.
SELECT pg_backend_pid()
