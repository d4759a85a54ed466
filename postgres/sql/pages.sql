-- The number of pages of the table, and the reasons for which its pages are not all of its rows:
-- its kind, as in pg_class; whether other tables inherit from it; and whether it has rows but no
-- page, as the tables have that an extension keeps on other servers.
SELECT pg_relation_size(c.oid) / current_setting('block_size')::int8, c.relkind::text,
       EXISTS (SELECT FROM pg_catalog.pg_inherits AS i WHERE i.inhparent = c.oid),
       c.relkind = 'r' AND pg_relation_size(c.oid) = 0 AND EXISTS (SELECT FROM {{schema}}.{{table}})
FROM pg_catalog.pg_class AS c
WHERE c.oid = {{'table'}}::regclass
