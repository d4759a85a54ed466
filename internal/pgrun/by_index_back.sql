-- Undoes by_index_keep.sql.
SELECT set_config('enable_seqscan', current_setting('brim.enable_seqscan'), true),
       set_config('enable_bitmapscan', current_setting('brim.enable_bitmapscan'), true),
       set_config('jit', current_setting('brim.jit'), true)
