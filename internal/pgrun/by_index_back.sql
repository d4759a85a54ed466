-- Undoes by_index_keep.sql.
SELECT set_config('enable_seqscan'::text, current_setting('brim.enable_seqscan'::text), true),
       set_config('enable_bitmapscan'::text, current_setting('brim.enable_bitmapscan'::text), true),
       set_config('jit'::text, current_setting('brim.jit'::text), true)
