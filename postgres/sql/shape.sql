-- The pages of the table, or of its largest partition; the number of its partitions; its kind, as in
-- pg_class; and whether it is plain and other tables inherit from it.
SELECT COALESCE(p.largest, pg_relation_size(c.oid::regclass)) / current_setting('block_size'::text)::int8, p.parts,
       c.relkind::text,
       c.relkind = 'r' AND EXISTS (SELECT FROM pg_catalog.pg_inherits AS i WHERE i.inhparent = c.oid)
FROM pg_catalog.pg_class AS c
     CROSS JOIN LATERAL (SELECT max(pg_relation_size(p.relid)) AS largest, count(*) AS parts
                         FROM pg_partition_tree(c.oid::regclass) AS p) AS p
WHERE c.oid = {{'table'}}::regclass::oid
