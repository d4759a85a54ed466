-- Bounds the transaction that it begins. $1 is the lock_timeout in milliseconds, or null; $2 the
-- idle_in_transaction_session_timeout, likewise.
SELECT {{lock_timeout($1)}}, {{idle_timeout($2)}}
