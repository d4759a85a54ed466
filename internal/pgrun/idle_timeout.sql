-- idle_timeout(given)
--
-- Sets idle_in_transaction_session_timeout for the rest of the transaction, unless the parameter
-- given is null, or the session has a smaller one. The server then ends a transaction whose client
-- has stopped, and frees its rows.
CASE WHEN {given}::text IS NULL THEN ''
     WHEN current_setting('idle_in_transaction_session_timeout') <> '0'
          AND current_setting('idle_in_transaction_session_timeout')::interval
              < ({given}::text || 'ms')::interval THEN ''
     ELSE set_config('idle_in_transaction_session_timeout', {given}::text, true) END
