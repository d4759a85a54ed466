-- Forbids plans that read a whole table, until the transaction ends. A bitmap would read all rows
-- behind a key before it returns the first. A plan that has to read a whole table nevertheless looks
-- so expensive then that the server would compile it, which takes longer than to run it.
SELECT set_config('enable_seqscan'::text, 'off'::text, true), set_config('enable_bitmapscan'::text, 'off'::text, true),
       set_config('jit'::text, 'off'::text, true)
