-- The lock_timeout of the session in milliseconds.
SELECT (date_part('epoch', current_setting('lock_timeout')::interval) * 1000)::bigint
