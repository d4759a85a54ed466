-- How many of the tables $2 the schema $1 has, and whether the database has the catalog of Citus.
-- It looks into the catalog instead of casting names to regclass, and so never fails.
SELECT count(*), to_regclass('pg_catalog.pg_dist_partition'::text) IS NOT NULL
FROM pg_catalog.pg_class AS c
     CROSS JOIN LATERAL (SELECT FROM pg_catalog.pg_namespace AS n
                         WHERE n.oid = c.relnamespace AND n.nspname = $1::text) AS n
WHERE c.relname = ANY ($2::text[])
