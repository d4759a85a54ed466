-- The tables of package spend. Every statement may run again. The tables are never UNLOGGED,
-- because they record money.
--
-- There is no CHECK: only package spend writes rows, and Verify compares them with the figures.
-- With five CHECKs, on seq, part, amount, dated and kind, an INSERT of 20,000 entries took 160, 174
-- and 252 ms instead of 152, 160 and 219 (PostgreSQL 15, medians of 25 runs each, in turn).

-- The working set of decisions: one small row per account. Every decision rewrites the row, so
-- there is no second index. Only package spend reads state, whose content follows from the entries.
CREATE TABLE IF NOT EXISTS {{schema}}.{{accounts}} (
    next_expiry bigint   NOT NULL DEFAULT 0,
    watch_after bigint[] NOT NULL DEFAULT '{}',
    watch_width bigint[] NOT NULL DEFAULT '{}',
    state       pg_catalog.bytea,
    key         pg_catalog.text COLLATE pg_catalog."C" NOT NULL PRIMARY KEY
) WITH (
    -- Room on each page for the next versions of its rows, for heap-only updates. A state has some
    -- 200 bytes with three rules, and grows with the rules and with the values of a tag. With
    -- states of 970 to 1,020 bytes, and statements that each update 60 random ones of 20,000, all
    -- of 101,855 updates were heap-only, and the table stayed at 5,000 pages. With a fillfactor of
    -- 85, 101,139 of 101,873 were, and the table grew from 3,334 to 3,460 pages; with 100, 97,625
    -- of 101,826, and it grew from 2,858 to 3,459.
    fillfactor = 70,
    -- As for the buckets: the defaults would wait for a fifth of the accounts, or vacuum some
    -- hundred hot ones at each naptime. autovacuum_vacuum_cost_delay stays at its default: with 0,
    -- one account with 16 callers for a minute was no faster, because its updates are heap-only.
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 1000,
    -- Truncation takes a lock that every decision would wait for.
    vacuum_truncate = false
);

COMMENT ON TABLE {{schema}}.{{accounts}} IS
    'Working sets of spend accounts. '
    'The key is the name of the budget, a slash, and the name of the account.';

-- The entries. Rows are inserted and never updated. Only entries that no rule needs any more
-- are deleted.
--
-- The primary key serves the history, newest first, and finds the entries that leave a window
-- by the time at which they happened, which is their date. Only corrections have another date,
-- and only they are in the second index. That index is on an expression. Otherwise a plan could
-- take the primary key instead, and read a whole account to find its few corrections of a date.
CREATE TABLE IF NOT EXISTS {{schema}}.{{entries}} (
    at           pg_catalog.timestamptz NOT NULL,
    dated        pg_catalog.timestamptz NOT NULL,
    seq          bigint                 NOT NULL,
    part         bigint                 NOT NULL,
    amount       bigint                 NOT NULL,
    used         bigint                 NOT NULL,
    held         bigint                 NOT NULL,
    spends       bigint                 NOT NULL,
    spend_amount bigint                 NOT NULL,
    currency     pg_catalog.text        NOT NULL,
    kind         pg_catalog.text        NOT NULL,
    account      pg_catalog.text COLLATE pg_catalog."C" NOT NULL,
    id           pg_catalog.text COLLATE pg_catalog."C" NOT NULL,
    spend        pg_catalog.text COLLATE pg_catalog."C" NOT NULL,
    tags         pg_catalog.jsonb,
    refused      pg_catalog.jsonb,
    credited     pg_catalog.jsonb,
    PRIMARY KEY (account, at, seq)
);
CREATE INDEX IF NOT EXISTS {{entries_dated}}
    ON {{schema}}.{{entries}} ((account OPERATOR(pg_catalog.||) ''), dated, seq) WHERE part OPERATOR(pg_catalog.<>) seq;

COMMENT ON TABLE {{schema}}.{{entries}} IS
    'The append-only ledger of package spend. '
    'The sum of used is the amount spent, the sum of held the amount reserved.';
COMMENT ON COLUMN {{schema}}.{{entries}}.at IS
    'Time of the decision by this server''s clock; never before that of the previous entry.';
COMMENT ON COLUMN {{schema}}.{{entries}}.dated IS
    'Date at which the entry counts; for a correction, the date of the corrected entry.';
COMMENT ON COLUMN {{schema}}.{{entries}}.seq IS 'Number of the entry in its account: 1, 2, 3 ...';
COMMENT ON COLUMN {{schema}}.{{entries}}.part IS
    'The seq of the corrected entry, or of this one if it corrects none.';
COMMENT ON COLUMN {{schema}}.{{entries}}.amount IS
    'Requested amount, in minor units of the currency.';
COMMENT ON COLUMN {{schema}}.{{entries}}.used IS 'Change of the amount spent, in minor units.';
COMMENT ON COLUMN {{schema}}.{{entries}}.held IS 'Change of the amount reserved, in minor units.';
COMMENT ON COLUMN {{schema}}.{{entries}}.spends IS 'Change of the number of spends.';
COMMENT ON COLUMN {{schema}}.{{entries}}.spend_amount IS
    'Amount of the request that began the spend, or of the credit; 0 for other entries.';
COMMENT ON COLUMN {{schema}}.{{entries}}.kind IS
    'spend, record, authorize, increase, decrease, extend, capture, release, void, expire, refund, '
    'credit, decline, limits, freeze or unfreeze.';
COMMENT ON COLUMN {{schema}}.{{entries}}.id IS 'ID of the request that caused the entry.';
COMMENT ON COLUMN {{schema}}.{{entries}}.spend IS
    'ID of the request that began the spend; empty if it was declined.';
COMMENT ON COLUMN {{schema}}.{{entries}}.refused IS 'Names of the rules that declined the request.';
COMMENT ON COLUMN {{schema}}.{{entries}}.credited IS
    'The part of a credit that each rule has counted: name of the rule, the entries that it counts, '
    'and the amount in minor units.';

-- The answer to each ID. The primary key makes a request happen at most once.
--
-- A capture, a refund and the end of a hold change the spend in the row of the request that began
-- it, mostly soon after. The fillfactor leaves room for one such row on each page. With 3 in 10 of
-- the rows changed some pages later, 48,089 of 67,488 updates were heap-only, and 37,335 of 65,410
-- with a fillfactor of 100, for 5,060 pages instead of 4,878.
CREATE TABLE IF NOT EXISTS {{schema}}.{{requests}} (
    at       pg_catalog.timestamptz NOT NULL,
    accounts pg_catalog.text[]      NOT NULL,
    content  pg_catalog.bytea       NOT NULL,
    answer   pg_catalog.bytea       NOT NULL,
    spend    pg_catalog.bytea,
    id       pg_catalog.text COLLATE pg_catalog."C" NOT NULL PRIMARY KEY
) WITH (fillfactor = 90);

COMMENT ON TABLE {{schema}}.{{requests}} IS
    'Answers of package spend by request ID, and the spends that the requests began.';

-- The open holds, in order of expiry. The row of a hold is deleted when the hold ends.
CREATE TABLE IF NOT EXISTS {{schema}}.{{holds}} (
    expires pg_catalog.timestamptz NOT NULL,
    account pg_catalog.text COLLATE pg_catalog."C" NOT NULL,
    spend   pg_catalog.text COLLATE pg_catalog."C" NOT NULL,
    PRIMARY KEY (account, expires, spend)
);

COMMENT ON TABLE {{schema}}.{{holds}} IS 'Open holds of package spend, by account and expiry.';

-- The rights of an application that spends. It cannot change an entry of the ledger, nor when or
-- how an open hold expires. It deletes old entries if it prunes; an application that does not
-- prune needs no DELETE on entries and requests.
--
--   REVOKE ALL ON {{schema}}.{{accounts}}, {{schema}}.{{entries}} FROM PUBLIC, app;
--   REVOKE ALL ON {{schema}}.{{requests}}, {{schema}}.{{holds}} FROM PUBLIC, app;
--   GRANT SELECT, INSERT, UPDATE, DELETE ON {{schema}}.{{accounts}} TO app;
--   GRANT SELECT, INSERT, DELETE ON {{schema}}.{{entries}}, {{schema}}.{{holds}} TO app;
--   GRANT SELECT, INSERT, UPDATE (spend), DELETE ON {{schema}}.{{requests}} TO app;
