-- The encodings of the database and of the session, the schemas that the server searches, in their
-- order, and the lock_timeout of the session in milliseconds. A schema may come before pg_catalog, so
-- the statement leaves no name to the search.
SELECT pg_catalog.current_setting('server_encoding'::pg_catalog.text), pg_catalog.current_setting('client_encoding'::pg_catalog.text),
       pg_catalog.current_schemas(true)::pg_catalog.text[],
       (pg_catalog.date_part('epoch'::pg_catalog.text, pg_catalog.current_setting('lock_timeout'::pg_catalog.text)::pg_catalog.interval)
        OPERATOR(pg_catalog.*) 1000::pg_catalog.float8)::pg_catalog.int8
