BEGIN;

-- 0001_buckets.up.sql

-- The table of buckets. Every statement may run again: a migration that was cut short is repeated from its start.

-- CREATE SCHEMA IF NOT EXISTS asks for the right to create schemas even where there is nothing to create.
DO $brim$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = 'brim_format') THEN
        EXECUTE pg_catalog.format('CREATE SCHEMA IF NOT EXISTS %I', 'brim_format');
    END IF;
END
$brim$;

-- No index but the primary key, and no CHECK: a second index on what every fill changes would forbid heap-only updates, and
-- what a CHECK would refuse is refused before it is sent, so it would only be evaluated again on every fill.
--
-- The key comes last: columns of fixed width in front of it are found without looking at it. COLLATE "C" because bytes decide
-- which keys are equal and in which order rows are locked.
--
-- What a fill changes stands together at the front, and what it repeats behind it: an update's WAL holds only what lies between
-- the first byte that differs and the last.
--
-- pre is there in a new row and null from its first update on, unless that needs it: rows so become 8 bytes shorter. With the
-- fillfactor alone each update takes its page just below the free space at which the next visitor cleans it; with what the rows
-- gave back, one visitor in seven does.
CREATE TABLE IF NOT EXISTS "brim_format"."buckets" (
    level         double precision NOT NULL,
    atime         timestamptz      NOT NULL,
    pre           double precision,
    held          double precision NOT NULL DEFAULT 0,
    capacity      double precision NOT NULL,
    leak_rate     double precision NOT NULL,
    blocked_until timestamptz,
    key           text COLLATE pg_catalog."C" NOT NULL PRIMARY KEY
) WITH (
    fillfactor = 85,                        -- room on each page for the next version of its rows: heap-only updates
    autovacuum_vacuum_scale_factor = 0.02,  -- a fifth of a large table is long to wait; pages that fills keep busy clean themselves
    autovacuum_vacuum_threshold = 1000,     -- but a small table that is hot need not be vacuumed every minute
    autovacuum_vacuum_cost_delay = 0,       -- the table is small for its traffic: be done soon
    vacuum_truncate = false                 -- cutting the file short takes a lock that every fill would wait for
);

COMMENT ON TABLE "brim_format"."buckets" IS
    'Leaky buckets, one row per key, kept by brim. A row that is missing is an empty bucket.';
COMMENT ON COLUMN "brim_format"."buckets".level IS
    'Units in the bucket at atime, of those that leak. Now: greatest(0, level - leak_rate * seconds since atime).';
COMMENT ON COLUMN "brim_format"."buckets".held IS
    'Units reserved, which take up room and do not leak.';
COMMENT ON COLUMN "brim_format"."buckets".atime IS
    'When level was true, in microseconds by this server''s clock. It never goes back.';
COMMENT ON COLUMN "brim_format"."buckets".capacity IS
    'Units that the bucket holds, by the limit last written. Each call brings its own.';
COMMENT ON COLUMN "brim_format"."buckets".leak_rate IS
    'Units per second that leak, by the limit last written. 0 never leaks.';
COMMENT ON COLUMN "brim_format"."buckets".pre IS
    'Scratch: the level that the last statement found, for its RETURNING, or null. Says nothing afterwards.';
COMMENT ON COLUMN "brim_format"."buckets".blocked_until IS
    'Nothing fits before then. NULL where no penalty was ever given.';
COMMENT ON COLUMN "brim_format"."buckets".key IS
    'The bucket''s name: UTF-8, 1 to 512 bytes, compared byte by byte.';

-- What migrations.Up and golang-migrate read; leave it out if another tool keeps count.

CREATE TABLE IF NOT EXISTS "brim_format"."buckets_migrations" (version bigint NOT NULL PRIMARY KEY, dirty boolean NOT NULL);
DELETE FROM "brim_format"."buckets_migrations" WHERE version <= 1;
INSERT INTO "brim_format"."buckets_migrations" (version, dirty)
SELECT 1, false WHERE NOT EXISTS (SELECT FROM "brim_format"."buckets_migrations");

COMMIT;
INSERT INTO brim_format.buckets (level, atime, held, capacity, leak_rate, blocked_until, key) VALUES (4.503599627370496e+15, '2026-11-20T12:00:00.000001Z', 0, 9.007199254740992e+15, 1e-12, NULL, 'é''
');
INSERT INTO brim_format.buckets (level, atime, held, capacity, leak_rate, blocked_until, key) VALUES (7.5, '2026-11-20T12:00:00Z', 0, 10, 0.25, NULL, 'level');
INSERT INTO brim_format.buckets (level, atime, held, capacity, leak_rate, blocked_until, key) VALUES (1, '2026-11-20T12:00:00Z', 2, 4, 0, NULL, 'held');
INSERT INTO brim_format.buckets (level, atime, held, capacity, leak_rate, blocked_until, key) VALUES (0, '2026-11-20T12:00:00Z', 0, 1, 1, '2026-11-20T13:00:00Z', 'blocked');
INSERT INTO brim_format.buckets (level, atime, held, capacity, leak_rate, blocked_until, key) VALUES (7, '2026-11-20T12:00:00Z', 0, 10, -1795179600000000, NULL, 'quota');
