-- The number of pages of the table.
SELECT pg_relation_size({{'table'}}::regclass) / current_setting('block_size')::int8
