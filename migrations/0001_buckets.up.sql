-- The table of buckets. Every statement may run again, because a migration that was cut short
-- is repeated from its start.

-- CREATE SCHEMA IF NOT EXISTS needs the right to create schemas even if the schema exists.
DO $brim$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname OPERATOR(pg_catalog.=) {{'schema'}}) THEN
        EXECUTE pg_catalog.format('CREATE SCHEMA IF NOT EXISTS %I', {{'schema'}});
    END IF;
END
$brim$;

-- The only index is the primary key. An index on a column that fills change would forbid
-- heap-only updates.
--
-- There is no CHECK. The client refuses invalid values before it sends them, and the server would
-- only evaluate the CHECK again at every fill. With five CHECKs, on the ranges of level, held,
-- capacity and leak_rate and on the length of key, an UPDATE of 20,000 rows takes 236 ms instead
-- of 172 ms (PostgreSQL 15, medians of 25 runs each, in turn).
--
-- The key is the last column, because the server finds columns of fixed width in front of it
-- without reading it. Its collation is "C", because keys are compared byte by byte, and rows
-- are locked in that order.
--
-- The columns that a fill changes stand together at the front, and those that it repeats behind
-- them. The WAL record of an update contains only the bytes from the first to the last
-- difference.
--
-- pre has a value in a new row, and is null from the first update on, unless the update needs
-- it. Rows without it are 8 bytes shorter. With the fillfactor alone, every update takes its
-- page just below the free space at which the next statement cleans the page. With the space
-- that the shorter rows give back, one statement in seven cleans it.
CREATE {{unlogged}}TABLE IF NOT EXISTS {{schema}}.{{table}} (
    level         double precision       NOT NULL,
    atime         pg_catalog.timestamptz NOT NULL,
    pre           double precision,
    held          double precision       NOT NULL DEFAULT 0,
    capacity      double precision       NOT NULL,
    leak_rate     double precision       NOT NULL,
    blocked_until pg_catalog.timestamptz,
    key           pg_catalog.text COLLATE pg_catalog."C" NOT NULL PRIMARY KEY
) WITH (
    -- Room on each page for the next versions of its rows, for heap-only updates. They leave
    -- nothing to autovacuum. With 100,000 keys, and statements that each fill 100 random ones,
    -- 107,294 of 107,300 updates were heap-only, and the table stayed at 1,220 pages. With a
    -- fillfactor of 100, 61,214 of 70,300 were, the table grew from 1,031 to 1,125 pages, its
    -- index from 658 to 686, and 10,405 dead rows waited for a vacuum.
    fillfactor = 85,
    -- Dead rows come from Prune, from Delete, and from fills while an old snapshot is open. The
    -- default would wait for a fifth of the table: 200,050 dead rows in a million buckets. These
    -- two start a vacuum at 21,000.
    autovacuum_vacuum_scale_factor = 0.02,
    -- The default of 50 would vacuum a table of some hundred hot buckets at each naptime, while a
    -- snapshot is open and the vacuum can remove nothing.
    autovacuum_vacuum_threshold = 1000,
    -- The default rests 2 ms after some ten dirty pages. The table is small for its traffic, so
    -- the vacuum finishes at once.
    autovacuum_vacuum_cost_delay = 0,
    -- Truncation takes a lock that every fill would wait for.
    vacuum_truncate = false
);

COMMENT ON TABLE {{schema}}.{{table}} IS
    'Leaky buckets of brim, one row per key. A missing row is an empty bucket.';
COMMENT ON COLUMN {{schema}}.{{table}}.level IS
    'Units at atime, without held ones. '
    'The level now is greatest(0, level - leak_rate * seconds since atime), '
    'or under a quota of the calendar: level until its end, and 0 from then on.';
COMMENT ON COLUMN {{schema}}.{{table}}.held IS
    'Reserved units, which take room and do not leak.';
COMMENT ON COLUMN {{schema}}.{{table}}.atime IS
    'Time of level by this server''s clock, to a microsecond. It never goes back.';
COMMENT ON COLUMN {{schema}}.{{table}}.capacity IS
    'Units that the bucket can hold, by the limit last written. Each call brings its own limit.';
COMMENT ON COLUMN {{schema}}.{{table}}.leak_rate IS
    'Units that leak per second, by the limit last written. A bucket with 0 never leaks. '
    'Below 0: the end of the period of a quota, in microseconds since 1970.';
COMMENT ON COLUMN {{schema}}.{{table}}.pre IS
    'Scratch: the level that the last statement found, for its RETURNING, or null. '
    'Without meaning afterwards.';
COMMENT ON COLUMN {{schema}}.{{table}}.blocked_until IS
    'Until this time the bucket refuses everything. NULL without a penalty.';
COMMENT ON COLUMN {{schema}}.{{table}}.key IS
    'Key of the bucket: UTF-8, 1 to 512 bytes, compared byte by byte.';

-- The role of the application needs these rights and no more. The owner of the tables, another
-- role, runs the migrations. Run the lines with the name of the application's role in the place of
-- app. The first two take back rights that ALTER DEFAULT PRIVILEGES may have given.
--
--   REVOKE ALL ON SCHEMA {{schema}} FROM PUBLIC, app;
--   REVOKE ALL ON {{schema}}.{{table}}, {{schema}}.{{versions}} FROM PUBLIC, app;
--   GRANT USAGE ON SCHEMA {{schema}} TO app;
--   GRANT SELECT, INSERT, UPDATE, DELETE ON {{schema}}.{{table}} TO app;
--   GRANT SELECT ON {{schema}}.{{versions}} TO app;
