-- The state of the table $2 of the schema by which Check judges it, or no row if there is no such
-- table: the user; the table itself, or a partition, that is not logged, or null; whether the user
-- may use the schema, and has the rights $1 on the table; whether row security applies to the user;
-- whether Citus distributes the table; whether autovacuum is off for it; its live rows, dead rows
-- and bytes; the number of dead rows at which autovacuum comes; those of the lists of columns $3 that no
-- unique index has; whether the table has a trigger that somebody has made.
--
-- A right is a word of GRANT, with a blank and the name of a column behind it or nothing.
SELECT quote_ident(current_user::text),
       (SELECT min(quote_ident(s.nspname::text) || '.'::text || quote_ident(u.relname::text))
        FROM pg_catalog.pg_class AS u CROSS JOIN LATERAL (SELECT s.nspname FROM pg_catalog.pg_namespace AS s
                                                          WHERE s.oid = u.relnamespace) AS s
        WHERE u.relpersistence::text = 'u'::text
              AND (u.oid = c.oid OR u.oid IN (SELECT i.inhrelid FROM pg_catalog.pg_inherits AS i WHERE i.inhparent = c.oid))),
       has_schema_privilege(n.oid, 'USAGE'::text),
       ARRAY(SELECT CASE WHEN split_part(r.name, ' '::text, 2) = ''::text THEN has_table_privilege(c.oid, r.name)
                         ELSE has_column_privilege(c.oid, split_part(r.name, ' '::text, 2), split_part(r.name, ' '::text, 1)) END
             FROM pg_catalog.unnest($1::text[]) AS r (name)),
       row_security_active(c.oid),
       EXISTS (SELECT FROM pg_catalog.pg_trigger AS g
               CROSS JOIN LATERAL (SELECT FROM pg_catalog.pg_proc AS p
                                   WHERE p.oid = g.tgfoid AND p.proname = 'citus_truncate_trigger') AS p
               WHERE g.tgrelid = c.oid),
       COALESCE('autovacuum_enabled=false'::text = ANY (c.reloptions)
                OR 'autovacuum_enabled=off'::text = ANY (c.reloptions), false),
       COALESCE(pg_stat_get_live_tuples(c.oid), 0::int8), COALESCE(pg_stat_get_dead_tuples(c.oid), 0::int8),
       pg_relation_size(c.oid::regclass),
       (COALESCE((SELECT o.option_value FROM pg_options_to_table(c.reloptions) AS o WHERE o.option_name = 'autovacuum_vacuum_threshold'::text),
                 current_setting('autovacuum_vacuum_threshold'::text))::float8
        + COALESCE((SELECT o.option_value FROM pg_options_to_table(c.reloptions) AS o WHERE o.option_name = 'autovacuum_vacuum_scale_factor'::text),
                   current_setting('autovacuum_vacuum_scale_factor'::text))::float8 * GREATEST(c.reltuples, 0::float4)::float8)::int8,
       ARRAY(SELECT k.columns FROM pg_catalog.unnest($3::text[]) AS k (columns)
             WHERE k.columns NOT IN (SELECT (SELECT string_agg(quote_ident(a.attname::text), ', '::text ORDER BY u.i)
                                             FROM pg_catalog.unnest(x.indkey::int2[]) WITH ORDINALITY AS u (attnum, i)
                                                  CROSS JOIN LATERAL (SELECT a.attname FROM pg_catalog.pg_attribute AS a
                                                                      WHERE a.attrelid = c.oid AND a.attnum = u.attnum) AS a)
                                     FROM pg_catalog.pg_index AS x
                                     WHERE x.indrelid = c.oid AND x.indisunique AND x.indisvalid AND x.indpred IS NULL AND x.indexprs IS NULL)),
       EXISTS (SELECT FROM pg_catalog.pg_trigger AS g WHERE g.tgrelid = c.oid AND NOT g.tgisinternal AND g.tgenabled::text <> 'D'::text)
FROM pg_catalog.pg_class AS c
     CROSS JOIN LATERAL (SELECT n.oid FROM pg_catalog.pg_namespace AS n
                         WHERE n.oid = c.relnamespace AND n.nspname = {{'schema'}}) AS n
WHERE c.relname = $2 AND c.relkind::text = ANY ('{r,p}'::text[])
