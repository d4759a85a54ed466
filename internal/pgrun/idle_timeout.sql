-- idle_timeout(given)
--
-- Sets idle_in_transaction_session_timeout for the rest of the transaction, unless the parameter
-- given is null, or the session has a smaller one. The server then ends a transaction whose client
-- has stopped, and frees its rows.
CASE WHEN {given}::text IS NULL THEN ''
     WHEN current_setting('idle_in_transaction_session_timeout'::text) <> '0'::text
          AND current_setting('idle_in_transaction_session_timeout'::text)::interval
              < ({given}::text || 'ms'::text)::interval THEN ''
     ELSE set_config('idle_in_transaction_session_timeout'::text, {given}::text, true) END
