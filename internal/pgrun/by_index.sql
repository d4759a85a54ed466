-- Forbids plans that read a whole table, until the transaction ends. A bitmap would read all rows
-- behind a key before it returns the first.
SELECT set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true)
