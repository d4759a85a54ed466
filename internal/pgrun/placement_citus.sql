-- Those of the tables $2 in the schema $1 that Citus distributes.
SELECT c.relname::text
FROM pg_catalog.pg_class AS c
     CROSS JOIN LATERAL (SELECT FROM pg_catalog.pg_namespace AS n
                         WHERE n.oid = c.relnamespace AND n.nspname = $1::text) AS n
WHERE c.relname = ANY ($2::text[])
  AND EXISTS (SELECT FROM pg_catalog.pg_dist_partition AS p WHERE p.logicalrelid = c.oid)
