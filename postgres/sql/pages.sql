-- The number of pages of the table, of all of its parts if it is partitioned. It looks into the
-- catalog instead of casting the name to regclass, and so never fails.
SELECT COALESCE((SELECT sum(pg_relation_size(p.relid)) FROM pg_partition_tree(c.oid::regclass) AS p)::int8,
                pg_relation_size(c.oid::regclass)) / current_setting('block_size'::text)::int8
FROM pg_catalog.pg_class AS c
     CROSS JOIN LATERAL (SELECT FROM pg_catalog.pg_namespace AS n
                         WHERE n.oid = c.relnamespace AND n.nspname = {{'schema'}}) AS n
WHERE c.relname = {{'name'}}
