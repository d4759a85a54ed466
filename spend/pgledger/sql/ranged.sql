-- Whether the table $2 of the schema $1 is partitioned by the time of its rows.
SELECT EXISTS (SELECT FROM pg_catalog.pg_class AS t JOIN pg_catalog.pg_namespace AS s ON s.oid = t.relnamespace
               WHERE s.nspname = $1::name AND t.relname = $2::name AND pg_get_partkeydef(t.oid) = 'RANGE (at)'::text)
