-- lock_timeout(given)
--
-- Sets lock_timeout for the rest of the statement's transaction, unless the parameter given is
-- null. It needs neither a statement of its own nor a transaction block, and leaves nothing on the
-- connection. A statement has to evaluate it before it locks a row.
CASE WHEN {given}::text IS NULL THEN '' ELSE set_config('lock_timeout'::text, {given}::text, true) END
