-- The lock_timeout of the session in milliseconds.
SELECT (date_part('epoch'::text, current_setting('lock_timeout'::text)::interval) * 1000::float8)::bigint
