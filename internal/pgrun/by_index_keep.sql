-- by_index.sql within a transaction of the application. It keeps the application's settings for
-- by_index_back.sql.
SELECT set_config('enable_seqscan'::text, CASE WHEN set_config('brim.enable_seqscan'::text,
           current_setting('enable_seqscan'::text), true) IS NOT NULL THEN 'off'::text END, true),
       set_config('enable_bitmapscan'::text, CASE WHEN set_config('brim.enable_bitmapscan'::text,
           current_setting('enable_bitmapscan'::text), true) IS NOT NULL THEN 'off'::text END, true),
       set_config('jit'::text, CASE WHEN set_config('brim.jit'::text,
           current_setting('jit'::text), true) IS NOT NULL THEN 'off'::text END, true)
