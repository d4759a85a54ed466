-- Whether the table $1 is partitioned by the time of its rows. The function takes a lock on its
-- table, so it is called for this one alone. By a join with pg_class, it was called for tables of the
-- same name in other schemas: it waited for whoever changed them, and failed if they were dropped.
SELECT COALESCE(pg_get_partkeydef(to_regclass($1::text)::oid) = 'RANGE (at)'::text, false)
