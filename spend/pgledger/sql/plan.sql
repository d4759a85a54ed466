-- Has the server plan the statements that follow in the transaction once for all parameters, and
-- without plans that read a whole table or all rows behind a key. Otherwise it would plan them anew
-- for each batch, which takes longer than to run them. It must not compile them either, however many
-- rows it expects. $1 is the lock_timeout in milliseconds, or
-- null; $2 the idle_in_transaction_session_timeout, likewise.
SELECT set_config('enable_seqscan'::text, 'off'::text, true), set_config('enable_bitmapscan'::text, 'off'::text, true),
       set_config('plan_cache_mode'::text, 'force_generic_plan'::text, true), set_config('jit'::text, 'off'::text, true),
       {{lock_timeout($1)}}, {{idle_timeout($2)}}
