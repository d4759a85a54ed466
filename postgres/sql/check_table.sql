-- The state of the table by which Check judges it, or no row if there is no table: its kind of
-- persistence; the user's right on the schema, and those in $1 on the table; whether it is
-- vacuumed; how many of brim's columns it has; its live rows, dead rows and bytes.
SELECT c.relpersistence::text, has_schema_privilege(n.oid, 'USAGE'),
       ARRAY(SELECT has_table_privilege(c.oid, r.name) FROM unnest($1::text[]) AS r (name)),
       NOT COALESCE('autovacuum_enabled=false' = ANY (c.reloptions)
                    OR 'autovacuum_enabled=off' = ANY (c.reloptions), false),
       (SELECT count(a.attnum) FROM pg_catalog.pg_attribute AS a
        WHERE a.attrelid = c.oid AND NOT a.attisdropped
              AND a.attname = ANY ('{level,atime,pre,held,capacity,leak_rate,blocked_until,key}'::text[])),
       COALESCE(pg_stat_get_live_tuples(c.oid), 0), COALESCE(pg_stat_get_dead_tuples(c.oid), 0),
       pg_relation_size(c.oid)
FROM pg_catalog.pg_class AS c
     CROSS JOIN LATERAL (SELECT n.oid FROM pg_catalog.pg_namespace AS n
                         WHERE n.oid = c.relnamespace AND n.nspname = {{'schema'}}) AS n
WHERE c.relname = {{'name'}} AND c.relkind::text = ANY ('{r,p}'::text[])
