-- The settings of the server and of the session by which Check judges them.
SELECT quote_ident(current_user), current_setting('server_version_num')::int4, current_setting('server_version'), {{instant(clock_timestamp())}},
       current_setting('synchronous_commit'), current_setting('synchronous_standby_names'),
       current_setting('fsync'), current_setting('full_page_writes'),
       current_setting('default_transaction_read_only'), current_setting('autovacuum'), pg_is_in_recovery()
