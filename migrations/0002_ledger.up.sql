-- The tables of package spend. Every statement may run again. They are never UNLOGGED: this is money.

-- What decisions go by, one small row per account, rewritten by each: no second index, and room for heap-only updates. The
-- state is package spend's own; all that it says follows from the entries.
CREATE TABLE IF NOT EXISTS {{schema}}.{{accounts}} (
    next_expiry bigint   NOT NULL DEFAULT 0,
    watch_after bigint[] NOT NULL DEFAULT '{}',
    watch_width bigint[] NOT NULL DEFAULT '{}',
    state       bytea,
    key         text COLLATE pg_catalog."C" NOT NULL PRIMARY KEY
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000, vacuum_truncate = false);

COMMENT ON TABLE {{schema}}.{{accounts}} IS
    'Working sets of spend accounts. The key is the budget''s name, a slash, and the account''s.';

-- What happened. Rows are inserted and never updated; only what no rule needs any more is ever deleted.
--
-- The primary key serves history, newest first, and the entries that leave a window: those are found by the time at which they
-- happened, which is their date. Only corrections have another date, and only they are in the second index. That is on an
-- expression, so that no plan can take the primary key instead and read all of an account to find its few corrections of a date.
CREATE TABLE IF NOT EXISTS {{schema}}.{{entries}} (
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
CREATE INDEX IF NOT EXISTS {{entries_dated}} ON {{schema}}.{{entries}} ((account || ''), dated, seq) WHERE part <> seq;

COMMENT ON TABLE {{schema}}.{{entries}} IS
    'The ledger of package spend: append-only. The sum of used is what was spent, the sum of held what is reserved.';
COMMENT ON COLUMN {{schema}}.{{entries}}.at IS 'When it was decided, by this server''s clock; never lower than that of the entry before.';
COMMENT ON COLUMN {{schema}}.{{entries}}.dated IS 'The date that it counts at: for a correction that of the entry it corrects.';
COMMENT ON COLUMN {{schema}}.{{entries}}.seq IS '1, 2, 3 ... in each account.';
COMMENT ON COLUMN {{schema}}.{{entries}}.part IS 'The seq of the entry that it corrects, or its own.';
COMMENT ON COLUMN {{schema}}.{{entries}}.amount IS 'What was asked, in minor units of the currency.';
COMMENT ON COLUMN {{schema}}.{{entries}}.used IS 'Change of what is spent, in minor units.';
COMMENT ON COLUMN {{schema}}.{{entries}}.held IS 'Change of what is reserved, in minor units.';
COMMENT ON COLUMN {{schema}}.{{entries}}.spends IS 'Change of the number of spends.';
COMMENT ON COLUMN {{schema}}.{{entries}}.kind IS
    'spend, record, authorize, increase, capture, release, void, expire, refund or decline.';
COMMENT ON COLUMN {{schema}}.{{entries}}.id IS 'The request that caused it.';
COMMENT ON COLUMN {{schema}}.{{entries}}.spend IS 'The request that began the spend; empty where that was declined.';
COMMENT ON COLUMN {{schema}}.{{entries}}.refused IS 'The names of the rules that declined it.';

-- What was answered to each ID. The primary key is what makes a request happen once.
CREATE TABLE IF NOT EXISTS {{schema}}.{{requests}} (
    at       timestamptz NOT NULL,
    accounts text[]      NOT NULL,
    content  bytea       NOT NULL,
    answer   bytea       NOT NULL,
    spend    bytea,
    id       text COLLATE pg_catalog."C" NOT NULL PRIMARY KEY
) WITH (fillfactor = 90);

COMMENT ON TABLE {{schema}}.{{requests}} IS 'What package spend has answered to each request ID, and the spend that the request began.';

-- What is held, in order of expiry. Rows of holds that have ended are deleted.
CREATE TABLE IF NOT EXISTS {{schema}}.{{holds}} (
    expires timestamptz NOT NULL,
    account text COLLATE pg_catalog."C" NOT NULL,
    spend   text COLLATE pg_catalog."C" NOT NULL,
    PRIMARY KEY (account, expires, spend)
);

COMMENT ON TABLE {{schema}}.{{holds}} IS 'What package spend holds open, by account and expiry.';
