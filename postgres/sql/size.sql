-- The number of pages of the table, of all of its parts if it is partitioned, and whether it has no
-- parts. It looks into the catalog instead of casting the name to regclass, and so never fails.
SELECT (COALESCE((SELECT sum(pg_relation_size(p.relid)) FROM pg_partition_tree(c.oid) AS p),
                 pg_relation_size(c.oid)) / current_setting('block_size')::int8)::int8,
       c.relkind = 'r' AND NOT EXISTS (SELECT FROM pg_catalog.pg_inherits AS i WHERE i.inhparent = c.oid)
FROM pg_catalog.pg_class AS c
     CROSS JOIN LATERAL (SELECT FROM pg_catalog.pg_namespace AS n
                         WHERE n.oid = c.relnamespace AND n.nspname = {{'schema'}}) AS n
WHERE c.relname = {{'name'}}
