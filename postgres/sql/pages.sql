-- How many pages the table has.
SELECT pg_relation_size({{'table'}}::regclass) / current_setting('block_size')::int8
