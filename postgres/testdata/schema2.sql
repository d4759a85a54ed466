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

-- 0002_ledger.up.sql

-- The tables of package spend. Every statement may run again. They are never UNLOGGED: this is money.

-- What decisions go by, one small row per account, rewritten by each: no second index, and room for heap-only updates. The
-- state is package spend's own; all that it says follows from the entries.
CREATE TABLE IF NOT EXISTS "brim_format"."buckets_accounts" (
    next_expiry bigint   NOT NULL DEFAULT 0,
    watch_after bigint[] NOT NULL DEFAULT '{}',
    watch_width bigint[] NOT NULL DEFAULT '{}',
    state       bytea,
    key         text COLLATE pg_catalog."C" NOT NULL PRIMARY KEY
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000, vacuum_truncate = false);

COMMENT ON TABLE "brim_format"."buckets_accounts" IS
    'Working sets of spend accounts. The key is the budget''s name, a slash, and the account''s.';

-- What happened. Rows are inserted and never updated; only what no rule needs any more is ever deleted.
--
-- The primary key serves history, newest first, and the entries that leave a window: those are found by the time at which they
-- happened, which is their date. Only corrections have another date, and only they are in the second index. That is on an
-- expression, so that no plan can take the primary key instead and read all of an account to find its few corrections of a date.
CREATE TABLE IF NOT EXISTS "brim_format"."buckets_entries" (
    at       timestamptz NOT NULL,
    dated    timestamptz NOT NULL,
    seq      bigint      NOT NULL,
    part     bigint      NOT NULL,
    amount   bigint      NOT NULL,
    used     bigint      NOT NULL,
    held     bigint      NOT NULL,
    spends   bigint      NOT NULL,
    currency text        NOT NULL,
    kind     text        NOT NULL,
    account  text COLLATE pg_catalog."C" NOT NULL,
    id       text COLLATE pg_catalog."C" NOT NULL,
    spend    text COLLATE pg_catalog."C" NOT NULL,
    tags     jsonb,
    refused  jsonb,
    PRIMARY KEY (account, at, seq)
);
CREATE INDEX IF NOT EXISTS "buckets_entries_dated" ON "brim_format"."buckets_entries" ((account || ''), dated, seq) WHERE part <> seq;

COMMENT ON TABLE "brim_format"."buckets_entries" IS
    'The ledger of package spend: append-only. The sum of used is what was spent, the sum of held what is reserved.';
COMMENT ON COLUMN "brim_format"."buckets_entries".at IS 'When it was decided, by this server''s clock; never lower than that of the entry before.';
COMMENT ON COLUMN "brim_format"."buckets_entries".dated IS 'The date that it counts at: for a correction that of the entry it corrects.';
COMMENT ON COLUMN "brim_format"."buckets_entries".seq IS '1, 2, 3 ... in each account.';
COMMENT ON COLUMN "brim_format"."buckets_entries".part IS 'The seq of the entry that it corrects, or its own.';
COMMENT ON COLUMN "brim_format"."buckets_entries".amount IS 'What was asked, in minor units of the currency.';
COMMENT ON COLUMN "brim_format"."buckets_entries".used IS 'Change of what is spent, in minor units.';
COMMENT ON COLUMN "brim_format"."buckets_entries".held IS 'Change of what is reserved, in minor units.';
COMMENT ON COLUMN "brim_format"."buckets_entries".spends IS 'Change of the number of spends.';
COMMENT ON COLUMN "brim_format"."buckets_entries".kind IS
    'spend, record, authorize, increase, capture, release, void, expire, refund or decline.';
COMMENT ON COLUMN "brim_format"."buckets_entries".id IS 'The request that caused it.';
COMMENT ON COLUMN "brim_format"."buckets_entries".spend IS 'The request that began the spend; empty where that was declined.';
COMMENT ON COLUMN "brim_format"."buckets_entries".refused IS 'The names of the rules that declined it.';

-- What was answered to each ID. The primary key is what makes a request happen once.
CREATE TABLE IF NOT EXISTS "brim_format"."buckets_requests" (
    at       timestamptz NOT NULL,
    accounts text[]      NOT NULL,
    content  bytea       NOT NULL,
    answer   bytea       NOT NULL,
    spend    bytea,
    id       text COLLATE pg_catalog."C" NOT NULL PRIMARY KEY
) WITH (fillfactor = 90);

COMMENT ON TABLE "brim_format"."buckets_requests" IS 'What package spend has answered to each request ID, and the spend that the request began.';

-- What is held, in order of expiry. Rows of holds that have ended are deleted.
CREATE TABLE IF NOT EXISTS "brim_format"."buckets_holds" (
    expires timestamptz NOT NULL,
    account text COLLATE pg_catalog."C" NOT NULL,
    spend   text COLLATE pg_catalog."C" NOT NULL,
    PRIMARY KEY (account, expires, spend)
);

COMMENT ON TABLE "brim_format"."buckets_holds" IS 'What package spend holds open, by account and expiry.';

-- What migrations.Up and golang-migrate read; leave it out if another tool keeps count.

CREATE TABLE IF NOT EXISTS "brim_format"."buckets_migrations" (version bigint NOT NULL PRIMARY KEY, dirty boolean NOT NULL);
DELETE FROM "brim_format"."buckets_migrations" WHERE version <= 2;
INSERT INTO "brim_format"."buckets_migrations" (version, dirty)
SELECT 2, false WHERE NOT EXISTS (SELECT FROM "brim_format"."buckets_migrations");

COMMIT;
INSERT INTO brim_format.buckets (level, atime, held, capacity, leak_rate, blocked_until, key) VALUES (4.503599627370496e+15, '2026-11-20T12:00:00.000001Z', 0, 9.007199254740992e+15, 1e-12, NULL, 'é''
');
INSERT INTO brim_format.buckets (level, atime, held, capacity, leak_rate, blocked_until, key) VALUES (7.5, '2026-11-20T12:00:00Z', 0, 10, 0.25, NULL, 'level');
INSERT INTO brim_format.buckets (level, atime, held, capacity, leak_rate, blocked_until, key) VALUES (1, '2026-11-20T12:00:00Z', 2, 4, 0, NULL, 'held');
INSERT INTO brim_format.buckets (level, atime, held, capacity, leak_rate, blocked_until, key) VALUES (0, '2026-11-20T12:00:00Z', 0, 1, 1, '2026-11-20T13:00:00Z', 'blocked');
