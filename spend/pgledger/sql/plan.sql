-- Has the server plan the statements that follow in the transaction once for all parameters, and
-- without plans that read a whole table or all rows behind a key. Otherwise it would plan them anew
-- for each batch, which takes longer than to run them. It must not compile them either, however many
-- rows it expects. $1 is the lock_timeout in milliseconds, or
-- null; $2 the idle_in_transaction_session_timeout, likewise.
SELECT set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true),
       set_config('plan_cache_mode', 'force_generic_plan', true), set_config('jit', 'off', true),
       {{lock_timeout($1)}}, {{idle_timeout($2)}}
