-- The bytes of the table and its indexes, of all of its parts if it is partitioned; 0 if there is
-- no table. It looks into the catalog instead of casting the name to regclass, and so never fails.
SELECT COALESCE((SELECT sum(COALESCE((SELECT sum(pg_total_relation_size(p.relid))
                                      FROM pg_partition_tree(c.oid::regclass) AS p)::int8,
                                     pg_total_relation_size(c.oid::regclass)))
                 FROM pg_catalog.pg_class AS c
                      CROSS JOIN LATERAL (SELECT FROM pg_catalog.pg_namespace AS n
                                          WHERE n.oid = c.relnamespace AND n.nspname = {{'schema'}}) AS n
                 WHERE c.relname = {{'name'}}), 0::numeric)::int8
