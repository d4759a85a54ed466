-- The settings of the server and of the session by which Check judges them.
SELECT quote_ident(current_user::text), current_setting('server_version_num'::text)::int4, current_setting('server_version'::text), {{instant(clock_timestamp())}},
       current_setting('synchronous_commit'::text), current_setting('synchronous_standby_names'::text),
       current_setting('fsync'::text), current_setting('full_page_writes'::text),
       current_setting('default_transaction_read_only'::text), current_setting('autovacuum'::text), pg_is_in_recovery()
