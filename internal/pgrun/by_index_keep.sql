-- by_index.sql within a transaction of the application. It keeps the application's settings for
-- by_index_back.sql.
SELECT set_config('enable_seqscan', CASE WHEN set_config('brim.enable_seqscan',
           current_setting('enable_seqscan'), true) IS NOT NULL THEN 'off' END, true),
       set_config('enable_bitmapscan', CASE WHEN set_config('brim.enable_bitmapscan',
           current_setting('enable_bitmapscan'), true) IS NOT NULL THEN 'off' END, true),
       set_config('jit', CASE WHEN set_config('brim.jit',
           current_setting('jit'), true) IS NOT NULL THEN 'off' END, true)
