BEGIN;

-- 0001_buckets.up.sql

-- The table of buckets. Every statement may run again, because a migration that was cut short
-- is repeated from its start.

-- CREATE SCHEMA IF NOT EXISTS needs the right to create schemas even if the schema exists.
DO $brim$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname OPERATOR(pg_catalog.=) 'brim_format') THEN
        EXECUTE pg_catalog.format('CREATE SCHEMA IF NOT EXISTS %I', 'brim_format');
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
CREATE TABLE IF NOT EXISTS "brim_format"."buckets" (
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

COMMENT ON TABLE "brim_format"."buckets" IS
    'Leaky buckets of brim, one row per key. A missing row is an empty bucket.';
COMMENT ON COLUMN "brim_format"."buckets".level IS
    'Units at atime, without held ones. '
    'The level now is greatest(0, level - leak_rate * seconds since atime), '
    'or under a quota of the calendar: level until its end, and 0 from then on.';
COMMENT ON COLUMN "brim_format"."buckets".held IS
    'Reserved units, which take room and do not leak.';
COMMENT ON COLUMN "brim_format"."buckets".atime IS
    'Time of level by this server''s clock, to a microsecond. It never goes back.';
COMMENT ON COLUMN "brim_format"."buckets".capacity IS
    'Units that the bucket can hold, by the limit last written. Each call brings its own limit.';
COMMENT ON COLUMN "brim_format"."buckets".leak_rate IS
    'Units that leak per second, by the limit last written. A bucket with 0 never leaks. '
    'Below 0: the end of the period of a quota, in microseconds since 1970.';
COMMENT ON COLUMN "brim_format"."buckets".pre IS
    'Scratch: the level that the last statement found, for its RETURNING, or null. '
    'Without meaning afterwards.';
COMMENT ON COLUMN "brim_format"."buckets".blocked_until IS
    'Until this time the bucket refuses everything. NULL without a penalty.';
COMMENT ON COLUMN "brim_format"."buckets".key IS
    'Key of the bucket: UTF-8, 1 to 512 bytes, compared byte by byte.';

-- The role of the application needs these rights and no more. The owner of the tables, another
-- role, runs the migrations. Run the lines with the name of the application's role in the place of
-- app. The first two take back rights that ALTER DEFAULT PRIVILEGES may have given.
--
--   REVOKE ALL ON SCHEMA "brim_format" FROM PUBLIC, app;
--   REVOKE ALL ON "brim_format"."buckets", "brim_format"."buckets_migrations" FROM PUBLIC, app;
--   GRANT USAGE ON SCHEMA "brim_format" TO app;
--   GRANT SELECT, INSERT, UPDATE, DELETE ON "brim_format"."buckets" TO app;
--   GRANT SELECT ON "brim_format"."buckets_migrations" TO app;

-- 0002_ledger.up.sql

-- The tables of package spend. Every statement may run again. The tables are never UNLOGGED,
-- because they record money.
--
-- IDs of requests are bytes: the 16 bytes of a UUID in lower case with its dashes; a zero and 16
-- bytes for 32 hexadecimal digits in lower case; and else the text itself. A text of 16 bytes has
-- two zeros in front, so that it is not taken for a UUID. The view "buckets_ledger" shows IDs as text.
--
-- There is no CHECK: only package spend writes rows, and Verify compares them with the figures.
-- With five CHECKs, on seq, part, amount, dated and kind, an INSERT of 20,000 entries took 160, 174
-- and 252 ms instead of 152, 160 and 219 (PostgreSQL 15, medians of 25 runs each, in turn).

-- The working set of decisions: one small row per account. Every decision rewrites the row. Few decisions
-- change a column of an index, so nearly all updates are heap-only. Only package spend reads state,
-- whose content follows from the entries, and rules, its part that most decisions leave as it is. The
-- id stands for the account in all other tables, so a new name is a change of one row. Columns that
-- seldom change come first, because the log has an update from the first byte that differs.
CREATE TABLE IF NOT EXISTS "brim_format"."buckets_accounts" (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    pruned      pg_catalog.timestamptz,
    due         pg_catalog.timestamptz,
    key         pg_catalog.text COLLATE pg_catalog."C" NOT NULL UNIQUE,
    rules       pg_catalog.bytea,
    watch       bigint[],
    holds       pg_catalog.bytea,
    state       pg_catalog.bytea
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

-- Prune finds the accounts of a budget by this index, whose keys begin with the name of the budget.
CREATE INDEX IF NOT EXISTS "buckets_accounts_due"
    ON "brim_format"."buckets_accounts" (pg_catalog.split_part(key, '/'::pg_catalog.text, 1), due, id) WHERE due IS NOT NULL;

COMMENT ON TABLE "brim_format"."buckets_accounts" IS
    'Working sets of spend accounts. '
    'The key is the name of the budget, a slash, and the name of the account.';
COMMENT ON COLUMN "brim_format"."buckets_accounts".pruned IS 'No rule needs the entries of the account up to that time; null for none.';
COMMENT ON COLUMN "brim_format"."buckets_accounts".due IS 'Before that time Prune has nothing to do on the account; null for never.';
COMMENT ON COLUMN "brim_format"."buckets_accounts".watch IS
    'Pairs of a date and a width in microseconds. '
    'Entries after the date leave the window when they are older than the width.';
COMMENT ON COLUMN "brim_format"."buckets_accounts".holds IS
    'A few open holds: for each the bytes ff and fe, the length of the ID, the ID of the spend, and '
    'the expiry in microseconds in 8 bytes. The other holds are rows of their own.';

-- The entries. Rows are inserted and never updated. Only entries that no rule needs any more
-- are deleted. A column is null where it repeats another one, so that a row takes some 100 bytes;
-- the view "buckets_ledger" shows all columns with their values.
--
-- The primary key serves the history, newest first, and finds the entries that leave a window
-- by the time at which they happened, which is their date. Only corrections have another date,
-- and only they are in the second index. That index is on an expression. Otherwise a plan could
-- take the primary key instead, and read a whole account to find its few corrections of a date.
CREATE TABLE IF NOT EXISTS "brim_format"."buckets_entries" (
    account      bigint                 NOT NULL,
    at           pg_catalog.timestamptz NOT NULL,
    seq          bigint                 NOT NULL,
    used         bigint,
    held         bigint,
    amount       bigint,
    dated        pg_catalog.timestamptz,
    part         bigint,
    spend_amount bigint,
    asked        bigint,
    least        bigint,
    ttl          bigint,
    expires      pg_catalog.timestamptz,
    kind         smallint               NOT NULL,
    spends       smallint,
    pending      smallint,
    currency     pg_catalog.text        NOT NULL,
    id           pg_catalog.bytea       NOT NULL,
    spend        pg_catalog.bytea,
    tags         pg_catalog.jsonb,
    refused      pg_catalog.jsonb,
    credited     pg_catalog.jsonb,
    PRIMARY KEY (account, at, seq)
);
CREATE INDEX IF NOT EXISTS "buckets_entries_dated"
    ON "brim_format"."buckets_entries" ((account OPERATOR(pg_catalog.+) 0::bigint), dated, seq) WHERE dated IS NOT NULL;

COMMENT ON TABLE "brim_format"."buckets_entries" IS
    'The append-only ledger of package spend. '
    'The sum of used is the amount spent, the sum of held the amount reserved.';
COMMENT ON COLUMN "brim_format"."buckets_entries".at IS
    'Time of the decision by this server''s clock, or that of the previous entry if it is later.';
COMMENT ON COLUMN "brim_format"."buckets_entries".seq IS 'Number of the entry in its account: 1, 2, 3 ...';
COMMENT ON COLUMN "brim_format"."buckets_entries".used IS 'Change of the amount spent, in minor units; null for 0.';
COMMENT ON COLUMN "brim_format"."buckets_entries".held IS 'Change of the amount reserved, in minor units; null for 0.';
COMMENT ON COLUMN "brim_format"."buckets_entries".amount IS
    'Amount that was approved, or that was asked if it was declined, in minor units of the currency; '
    'null if it is used, or held where used is null.';
COMMENT ON COLUMN "brim_format"."buckets_entries".dated IS
    'The date at which it counts, of a correction that of the corrected entry; null for at.';
COMMENT ON COLUMN "brim_format"."buckets_entries".part IS
    'The seq of the corrected entry, or 0 for an entry with an earlier date; null if it corrects none.';
COMMENT ON COLUMN "brim_format"."buckets_entries".spend_amount IS
    'Amount of the request that began the spend, or of the credit, and least of an UpTo that was declined; '
    '0 for other entries; null for the amount.';
COMMENT ON COLUMN "brim_format"."buckets_entries".asked IS
    'Amount that an UpTo or Increase asked for, if less was approved; null for the amount.';
COMMENT ON COLUMN "brim_format"."buckets_entries".least IS
    'Least amount that the UpTo or Increase would take; -1 for an authorization that no rule has judged; null for none.';
COMMENT ON COLUMN "brim_format"."buckets_entries".ttl IS
    'Lifetime of the hold that an Authorize, UpTo or Extend asked for, in microseconds; null if it named none.';
COMMENT ON COLUMN "brim_format"."buckets_entries".kind IS
    'Number of the kind of entry, as the view lists them; below 0 if held money becomes used at expires.';
COMMENT ON COLUMN "brim_format"."buckets_entries".spends IS 'Change of the number of spends that count for good; null for 0.';
COMMENT ON COLUMN "brim_format"."buckets_entries".expires IS 'End of the hold whose money the entry moves; null if it moves none.';
COMMENT ON COLUMN "brim_format"."buckets_entries".pending IS 'Change of the number of spends that count until expires; null for 0.';
COMMENT ON COLUMN "brim_format"."buckets_entries".id IS 'ID of the request that caused the entry.';
COMMENT ON COLUMN "brim_format"."buckets_entries".spend IS
    'ID of the request that began the spend; empty if it was declined; null for id.';
COMMENT ON COLUMN "brim_format"."buckets_entries".refused IS
    'Names of the rules that declined the request; frozen: and the reason if the account was frozen; '
    'shadow: and the name of a rule that would have declined it, also of an approved request.';
COMMENT ON COLUMN "brim_format"."buckets_entries".credited IS
    'The part of a credit that each rule has counted: name of the rule, the entries that it counts, '
    'and the amount in minor units.';

-- The answer to each ID. The primary key makes a request happen at most once. Rows are inserted and
-- never updated; a cancellation deletes a row and inserts another. spend is the spend as the request began it.
CREATE TABLE IF NOT EXISTS "brim_format"."buckets_requests" (
    at      pg_catalog.timestamptz NOT NULL,
    account bigint                 NOT NULL,
    also    bigint,
    more    bigint[],
    id      pg_catalog.bytea       NOT NULL PRIMARY KEY,
    content pg_catalog.bytea       NOT NULL,
    answer  pg_catalog.bytea       NOT NULL,
    spend   pg_catalog.bytea
);
-- Prune finds the pages with old requests by this index, which has a row for each 128 pages.
CREATE INDEX IF NOT EXISTS "buckets_requests_at" ON "brim_format"."buckets_requests" USING brin (at);

COMMENT ON TABLE "brim_format"."buckets_requests" IS
    'Answers of package spend by request ID, and the spends that the requests began.';
COMMENT ON COLUMN "brim_format"."buckets_requests".also IS 'The second account; null if there is none.';
COMMENT ON COLUMN "brim_format"."buckets_requests".more IS 'The third account and those after it; null if there are none.';

-- The spends that a capture, a refund, its reversal or the end of a hold has changed, as they are now.
CREATE TABLE IF NOT EXISTS "brim_format"."buckets_spends" (
    id    pg_catalog.bytea NOT NULL PRIMARY KEY,
    spend pg_catalog.bytea NOT NULL
) WITH (fillfactor = 90); -- room for the next version of some rows, for heap-only updates

COMMENT ON TABLE "brim_format"."buckets_spends" IS 'Spends that have changed since their request began them.';

-- The open holds of accounts that have more than a few, in order of expiry. The row of a hold is
-- deleted when the hold ends.
CREATE TABLE IF NOT EXISTS "brim_format"."buckets_holds" (
    account bigint                 NOT NULL,
    expires pg_catalog.timestamptz NOT NULL,
    spend   pg_catalog.bytea       NOT NULL,
    PRIMARY KEY (account, expires, spend)
);

COMMENT ON TABLE "brim_format"."buckets_holds" IS 'Open holds of package spend, by account and expiry, but for those in the row of the account.';

-- The rules of budgets, in revisions. Rows are inserted, and never updated or deleted, so they tell who has
-- set which rules, and when. The primary key finds the newest row of a budget, which is in force. If two
-- programs set rules at the same time, one of them fails on the primary key, and reads the other's row.
CREATE TABLE IF NOT EXISTS "brim_format"."buckets_rules" (
    budget   pg_catalog.text COLLATE pg_catalog."C" NOT NULL,
    seq      bigint                 NOT NULL,
    revision bigint                 NOT NULL,
    at       pg_catalog.timestamptz NOT NULL,
    held     boolean                NOT NULL,
    "by"     pg_catalog.text        NOT NULL,
    reason   pg_catalog.text        NOT NULL,
    digest   pg_catalog.bytea       NOT NULL,
    rules    pg_catalog.text        NOT NULL,
    PRIMARY KEY (budget, seq)
);

COMMENT ON TABLE "brim_format"."buckets_rules" IS 'The rules of the budgets of package spend. Those with the highest seq are in force.';
COMMENT ON COLUMN "brim_format"."buckets_rules".seq IS 'Number of the row in its budget: 1, 2, 3 ...';
COMMENT ON COLUMN "brim_format"."buckets_rules".revision IS 'Number that the author of the rules gave them.';
COMMENT ON COLUMN "brim_format"."buckets_rules".held IS 'Programs do not replace the rules when they start.';
COMMENT ON COLUMN "brim_format"."buckets_rules"."by" IS 'Who has set the rules; may be empty.';
COMMENT ON COLUMN "brim_format"."buckets_rules".reason IS 'Why the rules were set; may be empty.';
COMMENT ON COLUMN "brim_format"."buckets_rules".digest IS 'Digest of all other columns.';
COMMENT ON COLUMN "brim_format"."buckets_rules".rules IS 'The rules in their JSON form.';

-- The entries for people: names instead of numbers, and a value in every column.
CREATE OR REPLACE VIEW "brim_format"."buckets_ledger" AS
SELECT e.at, COALESCE(e.dated, e.at) AS dated, e.seq, COALESCE(e.part, e.seq) AS part,
       COALESCE(e.amount, e.used, e.held, 0::bigint) AS amount, COALESCE(e.used, 0::bigint) AS used,
       COALESCE(e.held, 0::bigint) AS held, COALESCE(e.spends, 0::smallint) AS spends,
       e.expires, COALESCE(e.pending, 0::smallint) AS pending,
       COALESCE(e.spend_amount, e.amount, e.used, e.held, 0::bigint) AS spend_amount, e.asked, e.least, e.ttl, e.currency,
       ('{spend,record,authorize,increase,capture,release,void,decrease,extend,expire,refund,credit,decline,limits,freeze,unfreeze,mend,cancel,plan,reverse,move}'::pg_catalog.text[])[pg_catalog.abs(e.kind)] AS kind,
       a.key AS account, 
       CASE WHEN pg_catalog.octet_length(e.id) OPERATOR(pg_catalog.=) 16 THEN pg_catalog.encode(e.id, 'hex'::pg_catalog.text)::pg_catalog.uuid::pg_catalog.text
            WHEN pg_catalog.substr(e.id, 1, 2) OPERATOR(pg_catalog.=) pg_catalog.decode('0000'::pg_catalog.text, 'hex'::pg_catalog.text) AND pg_catalog.octet_length(e.id) OPERATOR(pg_catalog.=) 18
            THEN pg_catalog.convert_from(pg_catalog.substr(e.id, 3), 'UTF8'::pg_catalog.name)
            WHEN pg_catalog.substr(e.id, 1, 1) OPERATOR(pg_catalog.=) pg_catalog.decode('00'::pg_catalog.text, 'hex'::pg_catalog.text) THEN pg_catalog.encode(pg_catalog.substr(e.id, 2), 'hex'::pg_catalog.text)
            ELSE pg_catalog.convert_from(e.id, 'UTF8'::pg_catalog.name) END AS id, 
       CASE WHEN pg_catalog.octet_length(COALESCE(e.spend, e.id)) OPERATOR(pg_catalog.=) 16 THEN pg_catalog.encode(COALESCE(e.spend, e.id), 'hex'::pg_catalog.text)::pg_catalog.uuid::pg_catalog.text
            WHEN pg_catalog.substr(COALESCE(e.spend, e.id), 1, 2) OPERATOR(pg_catalog.=) pg_catalog.decode('0000'::pg_catalog.text, 'hex'::pg_catalog.text) AND pg_catalog.octet_length(COALESCE(e.spend, e.id)) OPERATOR(pg_catalog.=) 18
            THEN pg_catalog.convert_from(pg_catalog.substr(COALESCE(e.spend, e.id), 3), 'UTF8'::pg_catalog.name)
            WHEN pg_catalog.substr(COALESCE(e.spend, e.id), 1, 1) OPERATOR(pg_catalog.=) pg_catalog.decode('00'::pg_catalog.text, 'hex'::pg_catalog.text) THEN pg_catalog.encode(pg_catalog.substr(COALESCE(e.spend, e.id), 2), 'hex'::pg_catalog.text)
            ELSE pg_catalog.convert_from(COALESCE(e.spend, e.id), 'UTF8'::pg_catalog.name) END AS spend, e.tags, e.refused, e.credited
FROM "brim_format"."buckets_entries" AS e
     CROSS JOIN LATERAL (SELECT a.key FROM "brim_format"."buckets_accounts" AS a WHERE a.id OPERATOR(pg_catalog.=) e.account) AS a;

COMMENT ON VIEW "brim_format"."buckets_ledger" IS 'The entries of package spend, with names and without null where a column repeats another one.';

-- The rights of an application that spends. It cannot change an entry of the ledger, nor when or
-- how an open hold expires. A decision about a spend locks the request that began it, which needs a
-- right to change a column. A cancellation replaces the answer to an ID. The application deletes old
-- entries if it prunes; one that does not prune needs no DELETE on entries. It reads the rules. A role
-- that sets rules, such as that of an application which brings them, also needs INSERT on rules.
--
--   REVOKE ALL ON "brim_format"."buckets_accounts", "brim_format"."buckets_entries", "brim_format"."buckets_spends" FROM PUBLIC, app;
--   REVOKE ALL ON "brim_format"."buckets_requests", "brim_format"."buckets_holds", "brim_format"."buckets_rules", "brim_format"."buckets_ledger" FROM PUBLIC, app;
--   GRANT SELECT, INSERT, UPDATE, DELETE ON "brim_format"."buckets_accounts", "brim_format"."buckets_spends" TO app;
--   GRANT SELECT, INSERT, DELETE ON "brim_format"."buckets_entries", "brim_format"."buckets_holds" TO app;
--   GRANT SELECT, INSERT, UPDATE (spend), DELETE ON "brim_format"."buckets_requests" TO app;
--   GRANT SELECT ON "brim_format"."buckets_rules" TO app;

-- 0003_functions.up.sql

-- The functions by which a session in any language shares buckets with Go programs. Every statement may
-- run again.
--
-- decide is Record.Fill of package store, and parse_limit and period_at are ParseLimit and PeriodAt.
-- A comment such as "leaked(b, at):" names a fragment of postgres/sql/fragments, whose text follows: a test
-- compares them, so that functions and statements compute the same.
--
-- Each function sets its search_path, so that no operator or function of a caller stands in for one of
-- pg_catalog. None runs with other rights than its caller's.

-- decide carries out the operation that is named like a function below. A refusal that writes nothing locks
-- nothing: the row is read without a lock first, and again under one only where the decision writes.
--
-- leak_rate and begins of a quota are those of its period: the end as a negative number of microseconds,
-- and the beginning. A capacity and a leak rate of 0 stand for the limit last written. The duration is that
-- of a block. The clock is for tests; where it is null, the server's is read behind the lock, so a stored
-- time is not taken for one of the future because the caller has waited.
--
-- The level is that after the call. outside is the bucket's time if another period has begun; then nothing
-- was decided.
CREATE OR REPLACE FUNCTION "brim_format"."decide"(
    key pg_catalog.text, op pg_catalog.text, amount double precision, INOUT capacity double precision,
    INOUT leak_rate double precision, begins double precision, duration pg_catalog.interval, clock pg_catalog.timestamptz,
    OUT accepted boolean, OUT level double precision, OUT remaining double precision,
    OUT retry_after pg_catalog.interval, OUT blocked_until pg_catalog.timestamptz,
    OUT held double precision, OUT at pg_catalog.timestamptz, OUT filled boolean, OUT spilled double precision,
    OUT drained double precision, OUT outside pg_catalog.timestamptz
) LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER SET search_path = pg_catalog, pg_temp AS $brim$
#variable_conflict use_variable
BEGIN
    -- Most calls put in what fits. One statement does that, as in postgres/sql/update_one.sql: each further
    -- expression here costs a call some microseconds.
    IF op = 'try_fillup' AND amount > 0 AND amount <= 9007199254740992
       AND capacity <= 9007199254740992 AND capacity + amount > capacity
       AND (leak_rate BETWEEN 1e-12 AND 9007199254740992 OR leak_rate = 0 AND capacity > 0 OR leak_rate < 0 AND begins IS NOT NULL) THEN
        UPDATE "brim_format"."buckets" AS t SET
            -- filled(t, amount, capacity, leak_rate, false, c.seen):
            level = CASE WHEN t.leak_rate < 0::float8
     THEN CASE WHEN c.seen <= t.atime OR round(date_part('epoch'::text, GREATEST(c.seen, t.atime)) * 1e6::float8) < -t.leak_rate THEN t.level ELSE 0::float8 END
     ELSE GREATEST(0::float8, t.level - t.leak_rate * (
    round(date_part('epoch'::text, GREATEST(c.seen, t.atime) - t.atime) * 1e6::float8) / 1e6::float8)) END + amount,
    pre = CASE WHEN false THEN CASE WHEN t.leak_rate < 0::float8
     THEN CASE WHEN c.seen <= t.atime OR round(date_part('epoch'::text, GREATEST(c.seen, t.atime)) * 1e6::float8) < -t.leak_rate THEN t.level ELSE 0::float8 END
     ELSE GREATEST(0::float8, t.level - t.leak_rate * (
    round(date_part('epoch'::text, GREATEST(c.seen, t.atime) - t.atime) * 1e6::float8) / 1e6::float8)) END END,
    atime = CASE WHEN t.atime < c.seen AND t.level < leak_rate * 1e9::float8 THEN c.seen
     WHEN t.level > 0::float8 AND t.leak_rate = leak_rate AND leak_rate > 0::float8 AND CASE WHEN t.leak_rate < 0::float8
     THEN CASE WHEN c.seen <= t.atime OR round(date_part('epoch'::text, GREATEST(c.seen, t.atime)) * 1e6::float8) < -t.leak_rate THEN t.level ELSE 0::float8 END
     ELSE GREATEST(0::float8, t.level - t.leak_rate * (
    round(date_part('epoch'::text, GREATEST(c.seen, t.atime) - t.atime) * 1e6::float8) / 1e6::float8)) END = t.level THEN t.atime
     ELSE GREATEST(c.seen, t.atime) END,
    capacity = capacity,
    leak_rate = leak_rate
        FROM (SELECT COALESCE(clock, clock_timestamp()) AS seen OFFSET 0) AS c
        WHERE t.key = key AND CASE WHEN
            -- intact(t):
            t.level >= 0::float8 AND t.level <= 8.112963841460668e31::float8
AND t.held >= 0::float8 AND t.held <= 8.112963841460668e31::float8
AND t.capacity >= 0::float8 AND t.capacity <= 9007199254740992::float8
AND (t.leak_rate >= 1e-12::float8 AND t.leak_rate <= 9007199254740992::float8
     OR t.leak_rate <= -1e9::float8 AND t.leak_rate >= -9007199254740992::float8
        AND trunc(t.leak_rate) = t.leak_rate
     OR t.leak_rate = 0::float8 AND (t.capacity > 0::float8 OR t.level = 0::float8 AND t.held = 0::float8))
AND t.atime >= '0001-01-01 00:00:00+00'::timestamptz AND t.atime <= '9999-12-31 23:59:59.999999+00'::timestamptz
AND (t.blocked_until IS NULL OR t.blocked_until >= '0001-01-01 00:00:00+00'::timestamptz
                                    AND t.blocked_until <= '2255-06-05 23:47:34.740992+00'::timestamptz)
            THEN
            -- usable(t, c.seen, interval '5 minutes', amount):
            (t.blocked_until IS NULL OR t.blocked_until <= GREATEST(c.seen, t.atime))
AND t.atime <= c.seen + interval '5 minutes'::interval
AND (amount * 4.503599627370496e15::float8 >= t.level OR amount = 0::float8)
            AND
            -- fits(t, c.seen, amount, capacity):
            (t.level + t.held + amount <= capacity
 OR CASE WHEN t.leak_rate < 0::float8
     THEN CASE WHEN c.seen <= t.atime OR round(date_part('epoch'::text, GREATEST(c.seen, t.atime)) * 1e6::float8) < -t.leak_rate THEN t.level ELSE 0::float8 END
     ELSE GREATEST(0::float8, t.level - t.leak_rate * (
    round(date_part('epoch'::text, GREATEST(c.seen, t.atime) - t.atime) * 1e6::float8) / 1e6::float8)) END + t.held + amount <= capacity)
            AND
            -- in_period(GREATEST(c.seen, t.atime), leak_rate, begins):
            (leak_rate >= 0::float8 OR round(date_part('epoch'::text, GREATEST(c.seen, t.atime)) * 1e6::float8) >= begins AND round(date_part('epoch'::text, GREATEST(c.seen, t.atime)) * 1e6::float8) < -leak_rate)
            END
        RETURNING true, t.level, GREATEST(0, capacity - t.level - t.held), interval '0', t.held, GREATEST(t.atime, c.seen),
            t.level + t.held >= capacity, 0, 0
        INTO accepted, level, remaining, retry_after, held, at, filled, spilled, drained;
        IF FOUND THEN
            RETURN;
        END IF;
    END IF;

    DECLARE
        epoch   CONSTANT timestamptz := '1970-01-01 00:00:00+00';
        forever CONSTANT timestamptz := '2255-06-05 23:47:34.740992+00'; -- store.MaxTime
        us      CONSTANT interval := '1 microsecond'; -- times a number: a sum with days would depend on the time zone
        fills   CONSTANT bool := op IN ('try_fillup', 'fillup', 'able_to_accept', 'drain');
        b       "brim_format"."buckets"%ROWTYPE;
        as_written CONSTANT bool := capacity = 0 AND leak_rate = 0;
        present bool;
        locked  bool := false;
        writes  bool;   -- the row differs from the stored one
        goes    bool;   -- the sum is the level from now on
        changes bool;   -- another leak rate than the one last written
        blocked bool;
        room    bool;
        seen    timestamptz; -- the clock
        sum     float8;      -- the level after the amount, or at a trial
        rate    float8;      -- at which a refused amount waits
        lo      float8;      -- microseconds after the bucket's time: too early for the amount
        hi      float8;      -- likewise: late enough
        trial   float8;      -- likewise: tried next
        step    float8 := 1;
        until   timestamptz;
    BEGIN
        -- The words are those of package store, validate.go.
        IF key IS NULL OR octet_length(key) NOT BETWEEN 1 AND 512 THEN
            RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'brim: invalid key: ' || CASE WHEN octet_length(key) > 512
                THEN format('the key has %s bytes; a key has 1 to 512 bytes', octet_length(key))
                ELSE 'the key is empty; a key has 1 to 512 bytes' END;
        ELSIF as_written THEN
            IF fills AND op <> 'drain' THEN
                RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'brim: invalid limit: the limit is not set; to let nobody in, use Nobody';
            END IF;
        ELSIF (capacity BETWEEN 0 AND 9007199254740992) IS NOT TRUE THEN
            RAISE EXCEPTION USING ERRCODE = '22023',
                MESSAGE = format('brim: invalid limit: capacity is %s; it must be from 0 to 2^53',
                    COALESCE(capacity::text, 'null'));
        ELSIF (leak_rate = 0 OR leak_rate BETWEEN 1e-12 AND 9007199254740992
               OR leak_rate < 0 AND begins IS NOT NULL) IS NOT TRUE THEN
            RAISE EXCEPTION USING ERRCODE = '22023',
                MESSAGE = format('brim: invalid limit: leak rate is %s per second; it must be 0, or from 1e-12 to 2^53',
                    COALESCE(leak_rate::text, 'null'));
        END IF;
        IF fills AND (amount BETWEEN 0 AND 9007199254740992) IS NOT TRUE THEN
            RAISE EXCEPTION USING ERRCODE = '22023',
                MESSAGE = format('brim: invalid amount: the amount is %s; it must be a number from 0 to 2^53',
                    COALESCE(amount::text, 'null'));
        ELSIF fills AND amount > 0 AND capacity + amount = capacity THEN
            RAISE EXCEPTION USING ERRCODE = '22023',
                MESSAGE = format('brim: invalid amount: the amount %s is lost in the rounding of capacity %s; count in larger units',
                    amount, capacity);
        ELSIF op = 'block' AND (duration >= us) IS NOT TRUE THEN
            RAISE EXCEPTION USING ERRCODE = '22023',
                MESSAGE = format('brim: invalid limit: the block lasts %s; it must last a microsecond or longer',
                    COALESCE(duration::text, 'null'));
        END IF;

        LOOP
            IF locked THEN
                SELECT t.* INTO b FROM "brim_format"."buckets" AS t WHERE t.key = key FOR NO KEY UPDATE;
            ELSE
                SELECT t.* INTO b FROM "brim_format"."buckets" AS t WHERE t.key = key;
            END IF;
            present := FOUND;
            seen := COALESCE(clock, clock_timestamp());
            writes := false; goes := false;
            IF NOT present THEN
                b.level := 0; b.held := 0; b.capacity := 0; b.leak_rate := 0; b.atime := seen; b.blocked_until := NULL;
            ELSIF NOT (
                -- intact(b):
                b.level >= 0::float8 AND b.level <= 8.112963841460668e31::float8
                AND b.held >= 0::float8 AND b.held <= 8.112963841460668e31::float8
                AND b.capacity >= 0::float8 AND b.capacity <= 9007199254740992::float8
                AND (b.leak_rate >= 1e-12::float8 AND b.leak_rate <= 9007199254740992::float8
                     OR b.leak_rate <= -1e9::float8 AND b.leak_rate >= -9007199254740992::float8
                        AND trunc(b.leak_rate) = b.leak_rate
                     OR b.leak_rate = 0::float8 AND (b.capacity > 0::float8 OR b.level = 0::float8 AND b.held = 0::float8))
                AND b.atime >= '0001-01-01 00:00:00+00'::timestamptz AND b.atime <= '9999-12-31 23:59:59.999999+00'::timestamptz
                AND (b.blocked_until IS NULL OR b.blocked_until >= '0001-01-01 00:00:00+00'::timestamptz
                                                    AND b.blocked_until <= '2255-06-05 23:47:34.740992+00'::timestamptz)
            ) THEN
                RAISE EXCEPTION USING ERRCODE = 'data_corrupted',
                    MESSAGE = 'brim: stored data is damaged: no call writes such a row',
                    HINT = 'Delete the row to make the bucket empty and usable again.';
            END IF;
            IF b.blocked_until = epoch THEN
                b.blocked_until := NULL;
            END IF;

            -- Record.unskew: a time far ahead of the clock is not believed.
            IF b.atime - seen > interval '5 minutes' THEN
                IF b.blocked_until > seen AND b.blocked_until < forever THEN
                    b.blocked_until := seen + GREATEST(0::float8, round(date_part('epoch', b.blocked_until - b.atime) * 1e6::float8)) * us;
                    IF b.blocked_until = epoch THEN
                        b.blocked_until := epoch + us;
                    END IF;
                END IF;
                b.atime := seen;
                writes := true;
            END IF;
            at := GREATEST(seen, b.atime);
            IF op <> 'state' AND NOT as_written AND NOT
                -- in_period(at, leak_rate, begins):
                (leak_rate >= 0::float8 OR round(date_part('epoch'::text, at) * 1e6::float8) >= begins AND round(date_part('epoch'::text, at) * 1e6::float8) < -leak_rate)
            THEN
                outside := at;
                RETURN;
            END IF;
            level :=
                -- leaked(b, at):
                CASE WHEN b.leak_rate < 0::float8
         THEN CASE WHEN at <= b.atime OR round(date_part('epoch'::text, GREATEST(at, b.atime)) * 1e6::float8) < -b.leak_rate THEN b.level ELSE 0::float8 END
         ELSE GREATEST(0::float8, b.level - b.leak_rate * (
        round(date_part('epoch'::text, GREATEST(at, b.atime) - b.atime) * 1e6::float8) / 1e6::float8)) END;
            accepted := true; filled := false; spilled := 0; drained := 0; retry_after := 0 * us;
            IF as_written THEN
                capacity := b.capacity;
                leak_rate := b.leak_rate;
            END IF;
            blocked := COALESCE(b.blocked_until > at, false);

            IF op = 'block' THEN
                trial := round(date_part('epoch', duration) * 1e6);
                until := CASE WHEN trial < 4611686018427387 THEN LEAST(at + trial * us, forever) ELSE forever END; -- store.Never
                IF until = epoch THEN
                    until := epoch + us;
                END IF;
                IF until > at AND (b.blocked_until IS NULL OR until > b.blocked_until) THEN
                    b.blocked_until := until;
                    IF b.capacity = 0 AND b.leak_rate = 0 THEN
                        b.capacity := capacity;
                        b.leak_rate := leak_rate;
                    END IF;
                    writes := true;
                END IF;
            ELSIF op = 'unblock' THEN
                writes := writes OR b.blocked_until IS NOT NULL; -- also of a block that is over: the clock may step back
                b.blocked_until := NULL;
            ELSIF op = 'state' OR amount = 0 OR op = 'drain' AND capacity = 0 AND leak_rate = 0 THEN
                writes := false;
            ELSIF op = 'drain' THEN
                sum := GREATEST(0, level - amount);
                drained := level - sum;
                goes := level > 0;
            ELSE
                changes := b.leak_rate <> leak_rate AND (b.capacity > 0 OR b.leak_rate <> 0);
                sum := level + amount;
                room := level + b.held + amount <= capacity;
                IF sum = level THEN -- an amount never goes in for nothing: the sum is the next double
                    sum := level + level * 1.1102230246251568e-16; -- 2^-53 + 2^-105
                    room := room AND sum + b.held <= capacity;
                END IF;
                accepted := room AND NOT blocked;
                IF op = 'fillup' AND NOT room THEN
                    sum := GREATEST(level, capacity - b.held);
                    spilled := GREATEST(0, level + amount - sum);
                END IF;
                goes := (accepted OR op = 'fillup') AND op <> 'able_to_accept';
                filled := goes AND (NOT room OR sum + b.held >= capacity);
                writes := writes AND op <> 'able_to_accept';
                IF op = 'try_fillup' AND NOT (accepted OR blocked) AND changes AND amount <= capacity THEN
                    -- A refusal under another rate ends the time at the rate last written.
                    b.level := level; b.atime := at; b.capacity := capacity; b.leak_rate := leak_rate;
                    writes := true;
                END IF;
            END IF;
            IF goes THEN
                b.atime :=
                    -- time_to_store(b, leak_rate, seen, level):
                    CASE WHEN b.atime < seen AND b.level < leak_rate * 1e9::float8 THEN seen
         WHEN b.level > 0::float8 AND b.leak_rate = leak_rate AND leak_rate > 0::float8 AND level = b.level THEN b.atime
         ELSE GREATEST(seen, b.atime) END;
                level := sum; b.level := sum; b.capacity := capacity; b.leak_rate := leak_rate;
                writes := true;
            END IF;

            EXIT WHEN NOT writes;
            IF NOT present THEN
                INSERT INTO "brim_format"."buckets" (level, atime, pre, held, capacity, leak_rate, blocked_until, key)
                VALUES (b.level, b.atime, -1, 0, b.capacity, b.leak_rate, b.blocked_until, key)
                ON CONFLICT DO NOTHING;
                EXIT WHEN FOUND;
            ELSIF locked THEN
                UPDATE "brim_format"."buckets" AS t SET level = b.level, atime = b.atime, pre = NULL, capacity = b.capacity,
                    leak_rate = b.leak_rate, blocked_until = b.blocked_until
                WHERE t.key = key;
                EXIT;
            END IF;
            locked := true;
        END LOOP;

        held := b.held;
        blocked := COALESCE(b.blocked_until > at, false);
        blocked_until := CASE WHEN blocked THEN b.blocked_until END;
        remaining := CASE WHEN blocked THEN 0 ELSE GREATEST(0, capacity - level - held) END;
        IF (b.capacity > 0 OR b.leak_rate <> 0) AND (level > 0 OR held > 0 OR blocked) THEN
            leak_rate := b.leak_rate; -- at which the bucket leaks until the next write
        END IF;
        IF accepted THEN
            RETURN;
        END IF;

        -- Record.wait: the first microsecond at which the rule lets the amount in. A division tells where to
        -- begin; rounding can make it wrong, so the rule decides.
        rate := CASE WHEN b.capacity > 0 OR b.leak_rate <> 0 THEN b.leak_rate ELSE leak_rate END;
        trial := round(date_part('epoch', at - b.atime) * 1e6);
        LOOP
            sum := CASE WHEN trial = 0 THEN b.level
                        WHEN rate < 0 THEN CASE WHEN round(date_part('epoch', b.atime) * 1e6) + trial < -rate THEN b.level ELSE 0 END
                        ELSE GREATEST(0, b.level - rate * (trial / 1e6)) END;
            IF sum + b.held + amount <= capacity
               AND (sum + amount <> sum OR sum + sum * 1.1102230246251568e-16 + b.held <= capacity) THEN
                hi := trial;
                EXIT WHEN lo IS NULL; -- the block alone keeps it out
            ELSIF b.held + amount > capacity OR rate = 0 THEN
                EXIT;
            ELSE
                lo := trial;
            END IF;
            EXIT WHEN hi - lo = 1;
            IF hi IS NOT NULL THEN
                trial := GREATEST(hi - step, lo + floor((hi - lo) / 2));
                step := step * 2;
            ELSIF step = 1 AND rate < 0 THEN
                trial := GREATEST(lo + 1, -rate - round(date_part('epoch', b.atime) * 1e6));
            ELSIF step = 1 THEN
                -- A smaller sum could underflow, which is an error here.
                trial := GREATEST(lo + 1, ceil(GREATEST(b.level + b.held + amount - capacity, 1e-280) / rate * 1e6));
                step := 2;
            ELSE
                trial := lo + step;
                step := step * 2;
            END IF;
            EXIT WHEN trial > 18014398509481984;
        END LOOP;
        trial := CASE WHEN lo IS NULL THEN 0 * hi ELSE hi + round(date_part('epoch', b.atime - seen) * 1e6) END;
        IF blocked AND hi IS NOT NULL THEN
            trial := GREATEST(trial, round(date_part('epoch', b.blocked_until - seen) * 1e6));
        END IF;
        retry_after := CASE WHEN trial < LEAST(9007199254740992 - round(date_part('epoch', seen) * 1e6), 4611686018427387) THEN trial * us END;
    END;
END
$brim$;

-- parse_limit reads a limit as ParseLimit of package store does. A quota of the calendar has no leak rate:
-- it has the start of one of its periods in local time, their width, and the zone. special is nobody or
-- unlimited. ParseLimit also takes zones whose name has neither a slash nor is UTC, durations with a sign, and
-- numbers of more than 40 characters.
CREATE OR REPLACE FUNCTION "brim_format"."parse_limit"(
    "limit" pg_catalog.text, OUT capacity double precision, OUT leak_rate double precision, OUT special pg_catalog.text,
    OUT anchor timestamp, OUT width pg_catalog.interval, OUT zone pg_catalog.text
) LANGUAGE plpgsql STABLE PARALLEL UNSAFE SECURITY INVOKER SET search_path = pg_catalog, pg_temp AS $brim$
#variable_conflict use_variable
DECLARE
    number CONSTANT text := '([0-9]+[.]?[0-9]*|[.][0-9]+)';
    m      text[];
    period text[];
    part   text;
    fault  text;
    ns     float8 := 0;
BEGIN
    IF "limit" IN ('nobody', 'unlimited') THEN
        special := "limit";
        capacity := CASE special WHEN 'nobody' THEN 0 ELSE 9007199254740992 END;
        RETURN;
    ELSIF "limit" = '0' THEN
        special := 'nobody';
        capacity := 0;
        RETURN;
    END IF;
    m := regexp_match("limit", '^([^/@]*)([/@])(.*)$');
    IF m IS NULL THEN
        fault := 'it has neither a period nor a leak rate';
    ELSIF m[1] !~ ('^[+]?' || number || '(e[+-]?[0-9]{1,2})?$') OR length(m[1]) > 40 THEN
        fault := format('"%s" is not a number from 0 to 2^53', m[1]);
    ELSIF m[2] = '@' AND (m[3] !~ ('^[+]?' || number || '(e[+-]?[0-9]{1,2})?$') OR length(m[3]) > 40) THEN
        fault := format('"%s" is not a number from 0 to 2^53', m[3]);
    ELSIF m[2] = '@' THEN
        capacity := m[1]::float8;
        leak_rate := m[3]::float8;
    ELSE
        capacity := m[1]::float8;
        period := string_to_array(split_part(m[3], '@', 1), ',');
        zone := substr(m[3], length(split_part(m[3], '@', 1)) + 2);
        IF strpos(m[3], '@') = 0 AND (period[1] IN ('hour', 'day', 'week', 'month', 'year')) IS NOT TRUE THEN
            zone := NULL;
            m := regexp_match(m[3], '^((' || number || '?(ns|us|µs|μs|ms|s|m|h|d|w))+)$');
            fault := CASE WHEN m IS NULL
                THEN 'it has no period: write a number and a unit, like 90s, 15m, 24h or 30d' END;
            IF fault IS NULL THEN
                FOR m IN SELECT regexp_matches(CASE WHEN m[1] ~ '^[^0-9.]' THEN '1' ELSE '' END || m[1],
                                               '([0-9]*)[.]?([0-9]*)(ns|us|µs|μs|ms|s|m|h|d|w)', 'g') LOOP
                    IF m[1] || m[2] = '' OR length(m[1]) > 15 OR length(m[2]) > 15 THEN
                        fault := 'it has no period: write a number and a unit, like 90s, 15m, 24h or 30d';
                    ELSE
                        -- package time truncates fractions to nanoseconds, and days and weeks are hours
                        ns := ns + CASE m[3] WHEN 'd' THEN 24 WHEN 'w' THEN 168 ELSE 1 END * (
                            SELECT COALESCE(NULLIF(m[1], ''), '0')::float8 * u.ns
                                 + trunc(COALESCE(NULLIF(m[2], ''), '0')::float8 * (u.ns / power(10::float8, length(m[2])::float8)))
                            FROM (SELECT CASE m[3] WHEN 'ns' THEN 1 WHEN 'us' THEN 1e3 WHEN 'µs' THEN 1e3 WHEN 'μs' THEN 1e3
                                              WHEN 'ms' THEN 1e6 WHEN 's' THEN 1e9 WHEN 'm' THEN 6e10 ELSE 3.6e12 END::float8 AS ns) AS u);
                    END IF;
                END LOOP;
                IF fault IS NULL AND ns >= 9223372036854775807 THEN
                    fault := 'it is too long: the longest is about 292 years';
                ELSIF fault IS NULL AND ns <= 0 THEN
                    fault := 'the period must be positive';
                ELSIF capacity = 0 THEN
                    special := 'nobody';
                ELSE
                    -- time.Duration.Seconds adds the whole seconds and the rest.
                    leak_rate := capacity / (trunc(ns / 1e9) + (ns - trunc(ns / 1e9) * 1e9) / 1e9);
                END IF;
            END IF;
        ELSIF zone = '' THEN
            fault := format('a calendar period needs a zone: write 100/%s@UTC for a calendar %1$s, or 100/24h for 24 hours', period[1]);
        ELSIF (period[1] IN ('hour', 'day', 'week', 'month', 'year')) IS NOT TRUE THEN
            fault := format('"%s" is no calendar period; that is hour, day, week, month or year', period[1]);
        ELSIF zone !~ '^(UTC|[A-Za-z_]+(/[A-Za-z_-]+)+|Etc/GMT[+-][0-9]{1,2})$' THEN
            fault := format('"%s" is no zone; that is UTC, or a name such as Europe/Berlin', zone);
        ELSE
            width := CASE period[1] WHEN 'hour' THEN interval '1 hour' WHEN 'day' THEN interval '1 day' WHEN 'week' THEN interval '7 days'
                WHEN 'month' THEN interval '1 month' ELSE interval '1 year' END;
            anchor := CASE period[1] WHEN 'week' THEN timestamp '1970-01-05 00:00:00' ELSE timestamp '1970-01-01 00:00:00' END; -- a Monday
            FOREACH part IN ARRAY period[2:] LOOP
                IF period[1] = 'week' AND part IN ('sunday', 'monday', 'tuesday', 'wednesday', 'thursday', 'friday', 'saturday') THEN
                    anchor := date_trunc('week', anchor) + (array_position(
                        '{monday,tuesday,wednesday,thursday,friday,saturday,sunday}'::text[], part) - 1) * interval '1 day' + anchor::time;
                ELSIF period[1] = 'month' AND part ~ '^(0?[1-9]|[12][0-9]|3[01])$' THEN
                    anchor := date_trunc('month', anchor) + (part::int - 1) * interval '1 day' + anchor::time;
                ELSIF period[1] <> 'hour' AND part ~ '^([01]?[0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9]([.][0-9]{1,6})?)?$' THEN
                    anchor := date_trunc('day', anchor) + part::time;
                ELSE
                    fault := format('a %s cannot start on "%s"; write 100/week,sunday@UTC, 100/month,15@UTC or 100/day,06:00@UTC', period[1], part);
                END IF;
            END LOOP;
            special := CASE WHEN capacity = 0 THEN 'nobody' END;
        END IF;
    END IF;
    IF "limit" IS NULL OR fault IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format(
            'brim: invalid limit: "%s": %s; write 100/1h, 100@0.5 (leaks 0.5 per second), 100/day@UTC, nobody or unlimited', "limit", fault);
    END IF;
END
$brim$;

-- period_start returns the first instant after which the local time of the zone is never again before the
-- given one.
CREATE OR REPLACE FUNCTION "brim_format"."period_start"(local timestamp, zone pg_catalog.text) RETURNS pg_catalog.timestamptz
LANGUAGE plpgsql STABLE PARALLEL UNSAFE SECURITY INVOKER SET search_path = pg_catalog, pg_temp AS $brim$
DECLARE
    us CONSTANT interval := '1 microsecond';
    -- Of a time that comes twice, this is the second.
    at timestamptz := local AT TIME ZONE zone;
    lo float8 := 0; -- microseconds after at: the local time is before the given one
    hi float8 := round(date_part('epoch', (at AT TIME ZONE zone) - local) * 1e6); -- likewise: it is not
BEGIN
    IF hi = 0 THEN
        -- Where clocks are set back to the very time, the first counts: none after it is before that.
        RETURN at - GREATEST(0, 1 + round(date_part('epoch', ((at - us) AT TIME ZONE zone) - local) * 1e6)) * us;
    END IF;
    -- Clocks jump over the time. Then at is as far behind the jump as the time is behind its beginning.
    at := at - hi * us;
    WHILE hi - lo > 1 LOOP
        IF (at + floor((lo + hi) / 2) * us) AT TIME ZONE zone < local THEN
            lo := floor((lo + hi) / 2);
        ELSE
            hi := floor((lo + hi) / 2);
        END IF;
    END LOOP;
    RETURN at + hi * us;
END
$brim$;

-- period_at returns the period in which at is, in microseconds since 1970. The arguments are those of
-- parse_limit.
CREATE OR REPLACE FUNCTION "brim_format"."period_at"(
    anchor timestamp, width pg_catalog.interval, zone pg_catalog.text, at pg_catalog.timestamptz,
    OUT begins double precision, OUT ends double precision
) LANGUAGE plpgsql STABLE PARALLEL UNSAFE SECURITY INVOKER SET search_path = pg_catalog, pg_temp AS $brim$
DECLARE
    local  CONSTANT timestamp := at AT TIME ZONE zone;
    months CONSTANT int := date_part('year', width) * 12 + date_part('month', width);
    -- The number of periods from the anchor. A month that starts on the 31st starts on its last day.
    k      int := CASE WHEN months = 0 THEN floor(date_part('epoch', local - anchor) / date_part('epoch', width))
        ELSE floor(((date_part('year', local) - 1970) * 12 + date_part('month', local) - 1) / months) END;
    first  timestamptz := "brim_format"."period_start"(anchor + k * width, zone);
    next   timestamptz;
BEGIN
    WHILE at < first LOOP -- clocks will leave the date once more, or the month starts later
        k := k - 1;
        first := "brim_format"."period_start"(anchor + k * width, zone);
    END LOOP;
    LOOP
        next := "brim_format"."period_start"(anchor + (k + 1) * width, zone);
        EXIT WHEN at < next;
        k := k + 1;
        first := next;
    END LOOP;
    begins := round(date_part('epoch', first) * 1e6);
    ends := round(date_part('epoch', next) * 1e6);
    IF begins < 0 OR ends > 9007199254740992 THEN
        RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE =
            format('brim: invalid limit: a quota of the calendar has periods from 1970 to 2255; the clock shows %s', at);
    END IF;
END
$brim$;

-- apply_limit is decide under a limit that is a text.
CREATE OR REPLACE FUNCTION "brim_format"."apply_limit"(
    key pg_catalog.text, op pg_catalog.text, amount double precision, "limit" pg_catalog.text, clock pg_catalog.timestamptz,
    OUT accepted boolean, OUT level double precision, OUT remaining double precision,
    OUT retry_after pg_catalog.interval, OUT blocked_until pg_catalog.timestamptz
) LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER SET search_path = pg_catalog, pg_temp AS $brim$
DECLARE
    l    record := "brim_format"."parse_limit"("limit");
    p    record;
    d    record;
    time timestamptz := COALESCE(clock, clock_timestamp());
BEGIN
    IF l.special IS NOT NULL AND op IN ('try_fillup', 'fillup', 'able_to_accept') THEN
        -- Nothing is counted. The question has the arguments checked.
        d := "brim_format"."decide"(key, 'able_to_accept', amount, 0, 1, NULL, NULL, clock);
        accepted := l.special = 'unlimited' OR amount = 0;
        level := 0;
        remaining := l.capacity;
        retry_after := CASE WHEN accepted THEN interval '0' END;
        RETURN;
    END IF;
    LOOP
        IF l.special IS NOT NULL THEN
            d := "brim_format"."decide"(key, op, amount, 0, 0, NULL, NULL, clock);
            d.remaining := CASE WHEN d.blocked_until IS NULL THEN GREATEST(0, l.capacity - d.level - d.held) ELSE 0 END;
        ELSIF l.zone IS NULL THEN
            d := "brim_format"."decide"(key, op, amount, l.capacity, l.leak_rate, NULL, NULL, clock);
        ELSE
            p := "brim_format"."period_at"(l.anchor, l.width, l.zone, time);
            d := "brim_format"."decide"(key, op, amount, l.capacity, -p.ends, p.begins, NULL, clock);
        END IF;
        EXIT WHEN d.outside IS NULL;
        time := d.outside;
    END LOOP;
    accepted := d.accepted; level := d.level; remaining := d.remaining;
    retry_after := d.retry_after; blocked_until := d.blocked_until;
END
$brim$;

-- try_fillup puts the amount into the bucket if it fits wholly, and changes nothing if it does not.
CREATE OR REPLACE FUNCTION "brim_format"."try_fillup"(
    key pg_catalog.text, amount double precision, capacity double precision, leak_rate double precision,
    OUT accepted boolean, OUT level double precision, OUT remaining double precision,
    OUT retry_after pg_catalog.interval, OUT blocked_until pg_catalog.timestamptz
) LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER SET search_path = pg_catalog, pg_temp AS $brim$
DECLARE
    d record := "brim_format"."decide"(key, 'try_fillup', amount, capacity, leak_rate, NULL, NULL, NULL);
BEGIN
    accepted := d.accepted; level := d.level; remaining := d.remaining;
    retry_after := d.retry_after; blocked_until := d.blocked_until;
END
$brim$;
CREATE OR REPLACE FUNCTION "brim_format"."try_fillup"(
    key pg_catalog.text, amount double precision, "limit" pg_catalog.text,
    OUT accepted boolean, OUT level double precision, OUT remaining double precision,
    OUT retry_after pg_catalog.interval, OUT blocked_until pg_catalog.timestamptz
) LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER SET search_path = pg_catalog, pg_temp AS $brim$
DECLARE
    d record := "brim_format"."apply_limit"(key, 'try_fillup', amount, "limit", NULL);
BEGIN
    accepted := d.accepted; level := d.level; remaining := d.remaining;
    retry_after := d.retry_after; blocked_until := d.blocked_until;
END
$brim$;

-- fillup counts an amount that has occurred: it goes in as far as there is room, and accepted tells whether all of
-- it did.
CREATE OR REPLACE FUNCTION "brim_format"."fillup"(
    key pg_catalog.text, amount double precision, capacity double precision, leak_rate double precision,
    OUT accepted boolean, OUT level double precision, OUT remaining double precision,
    OUT retry_after pg_catalog.interval, OUT blocked_until pg_catalog.timestamptz
) LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER SET search_path = pg_catalog, pg_temp AS $brim$
DECLARE
    d record := "brim_format"."decide"(key, 'fillup', amount, capacity, leak_rate, NULL, NULL, NULL);
BEGIN
    accepted := d.accepted; level := d.level; remaining := d.remaining;
    retry_after := d.retry_after; blocked_until := d.blocked_until;
END
$brim$;
CREATE OR REPLACE FUNCTION "brim_format"."fillup"(
    key pg_catalog.text, amount double precision, "limit" pg_catalog.text,
    OUT accepted boolean, OUT level double precision, OUT remaining double precision,
    OUT retry_after pg_catalog.interval, OUT blocked_until pg_catalog.timestamptz
) LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER SET search_path = pg_catalog, pg_temp AS $brim$
DECLARE
    d record := "brim_format"."apply_limit"(key, 'fillup', amount, "limit", NULL);
BEGIN
    accepted := d.accepted; level := d.level; remaining := d.remaining;
    retry_after := d.retry_after; blocked_until := d.blocked_until;
END
$brim$;

-- able_to_accept asks whether the amount would fit, and writes nothing.
CREATE OR REPLACE FUNCTION "brim_format"."able_to_accept"(
    key pg_catalog.text, amount double precision, capacity double precision, leak_rate double precision,
    OUT accepted boolean, OUT level double precision, OUT remaining double precision,
    OUT retry_after pg_catalog.interval, OUT blocked_until pg_catalog.timestamptz
) LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER SET search_path = pg_catalog, pg_temp AS $brim$
DECLARE
    d record := "brim_format"."decide"(key, 'able_to_accept', amount, capacity, leak_rate, NULL, NULL, NULL);
BEGIN
    accepted := d.accepted; level := d.level; remaining := d.remaining;
    retry_after := d.retry_after; blocked_until := d.blocked_until;
END
$brim$;
CREATE OR REPLACE FUNCTION "brim_format"."able_to_accept"(
    key pg_catalog.text, amount double precision, "limit" pg_catalog.text,
    OUT accepted boolean, OUT level double precision, OUT remaining double precision,
    OUT retry_after pg_catalog.interval, OUT blocked_until pg_catalog.timestamptz
) LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER SET search_path = pg_catalog, pg_temp AS $brim$
DECLARE
    d record := "brim_format"."apply_limit"(key, 'able_to_accept', amount, "limit", NULL);
BEGIN
    accepted := d.accepted; level := d.level; remaining := d.remaining;
    retry_after := d.retry_after; blocked_until := d.blocked_until;
END
$brim$;

-- drain takes up to the amount out of the bucket.
CREATE OR REPLACE FUNCTION "brim_format"."drain"(
    key pg_catalog.text, amount double precision, capacity double precision, leak_rate double precision,
    OUT accepted boolean, OUT level double precision, OUT remaining double precision,
    OUT retry_after pg_catalog.interval, OUT blocked_until pg_catalog.timestamptz
) LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER SET search_path = pg_catalog, pg_temp AS $brim$
DECLARE
    d record := "brim_format"."decide"(key, 'drain', amount, capacity, leak_rate, NULL, NULL, NULL);
BEGIN
    accepted := d.accepted; level := d.level; remaining := d.remaining;
    retry_after := d.retry_after; blocked_until := d.blocked_until;
END
$brim$;
CREATE OR REPLACE FUNCTION "brim_format"."drain"(
    key pg_catalog.text, amount double precision, "limit" pg_catalog.text,
    OUT accepted boolean, OUT level double precision, OUT remaining double precision,
    OUT retry_after pg_catalog.interval, OUT blocked_until pg_catalog.timestamptz
) LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER SET search_path = pg_catalog, pg_temp AS $brim$
DECLARE
    d record := "brim_format"."apply_limit"(key, 'drain', amount, "limit", NULL);
BEGIN
    accepted := d.accepted; level := d.level; remaining := d.remaining;
    retry_after := d.retry_after; blocked_until := d.blocked_until;
END
$brim$;

-- state reads a bucket, and writes nothing. Without a limit, that is the one last written.
CREATE OR REPLACE FUNCTION "brim_format"."state"(
    key pg_catalog.text, capacity double precision, leak_rate double precision,
    OUT level double precision, OUT remaining double precision, OUT blocked_until pg_catalog.timestamptz
) LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER SET search_path = pg_catalog, pg_temp AS $brim$
DECLARE
    d record := "brim_format"."decide"(key, 'state', NULL, capacity, leak_rate, NULL, NULL, NULL);
BEGIN
    level := d.level; remaining := d.remaining; blocked_until := d.blocked_until;
END
$brim$;
CREATE OR REPLACE FUNCTION "brim_format"."state"(
    key pg_catalog.text, "limit" pg_catalog.text,
    OUT level double precision, OUT remaining double precision, OUT blocked_until pg_catalog.timestamptz
) LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER SET search_path = pg_catalog, pg_temp AS $brim$
DECLARE
    d record := "brim_format"."apply_limit"(key, 'state', NULL, "limit", NULL);
BEGIN
    level := d.level; remaining := d.remaining; blocked_until := d.blocked_until;
END
$brim$;
CREATE OR REPLACE FUNCTION "brim_format"."state"(
    key pg_catalog.text,
    OUT level double precision, OUT remaining double precision, OUT blocked_until pg_catalog.timestamptz
) LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER SET search_path = pg_catalog, pg_temp AS $brim$
DECLARE
    d record := "brim_format"."decide"(key, 'state', NULL, 0, 0, NULL, NULL, NULL);
BEGIN
    level := d.level; remaining := d.remaining; blocked_until := d.blocked_until;
END
$brim$;

-- block keeps everything out of the bucket for the duration. It may prolong a block, and never shortens one.
CREATE OR REPLACE FUNCTION "brim_format"."block"(
    key pg_catalog.text, duration pg_catalog.interval,
    OUT level double precision, OUT remaining double precision, OUT blocked_until pg_catalog.timestamptz
) LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER SET search_path = pg_catalog, pg_temp AS $brim$
DECLARE
    d record := "brim_format"."decide"(key, 'block', NULL, 0, 0, NULL, duration, NULL);
BEGIN
    level := d.level; remaining := d.remaining; blocked_until := d.blocked_until;
END
$brim$;

-- unblock ends the block of the bucket, whoever set it.
CREATE OR REPLACE FUNCTION "brim_format"."unblock"(
    key pg_catalog.text,
    OUT level double precision, OUT remaining double precision, OUT blocked_until pg_catalog.timestamptz
) LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER SET search_path = pg_catalog, pg_temp AS $brim$
DECLARE
    d record := "brim_format"."decide"(key, 'unblock', NULL, 0, 0, NULL, NULL, NULL);
BEGIN
    level := d.level; remaining := d.remaining; blocked_until := d.blocked_until;
END
$brim$;

-- The server grants EXECUTE to everybody who makes no other choice.
REVOKE ALL ON FUNCTION
    "brim_format"."decide"(pg_catalog.text, pg_catalog.text, double precision, double precision, double precision, double precision, pg_catalog.interval, pg_catalog.timestamptz),
    "brim_format"."parse_limit"(pg_catalog.text),
    "brim_format"."period_start"(timestamp, pg_catalog.text),
    "brim_format"."period_at"(timestamp, pg_catalog.interval, pg_catalog.text, pg_catalog.timestamptz),
    "brim_format"."apply_limit"(pg_catalog.text, pg_catalog.text, double precision, pg_catalog.text, pg_catalog.timestamptz),
    "brim_format"."try_fillup"(pg_catalog.text, double precision, double precision, double precision),
    "brim_format"."try_fillup"(pg_catalog.text, double precision, pg_catalog.text),
    "brim_format"."fillup"(pg_catalog.text, double precision, double precision, double precision),
    "brim_format"."fillup"(pg_catalog.text, double precision, pg_catalog.text),
    "brim_format"."able_to_accept"(pg_catalog.text, double precision, double precision, double precision),
    "brim_format"."able_to_accept"(pg_catalog.text, double precision, pg_catalog.text),
    "brim_format"."drain"(pg_catalog.text, double precision, double precision, double precision),
    "brim_format"."drain"(pg_catalog.text, double precision, pg_catalog.text),
    "brim_format"."state"(pg_catalog.text, double precision, double precision),
    "brim_format"."state"(pg_catalog.text, pg_catalog.text),
    "brim_format"."state"(pg_catalog.text),
    "brim_format"."block"(pg_catalog.text, pg_catalog.interval),
    "brim_format"."unblock"(pg_catalog.text)
FROM PUBLIC;

-- A role that calls the functions needs EXECUTE on all of them, and the rights on the table that
-- 0001_buckets.up.sql lists, without DELETE. Run the lines with the name of the role in the place of app.
--
--   GRANT USAGE ON SCHEMA "brim_format" TO app;
--   GRANT SELECT, INSERT, UPDATE ON "brim_format"."buckets" TO app;
--   GRANT EXECUTE ON FUNCTION "brim_format"."decide"(pg_catalog.text, pg_catalog.text, double precision, double precision, double precision, double precision, pg_catalog.interval, pg_catalog.timestamptz) TO app;
--   GRANT EXECUTE ON FUNCTION "brim_format"."parse_limit"(pg_catalog.text) TO app;
--   GRANT EXECUTE ON FUNCTION "brim_format"."period_start"(timestamp, pg_catalog.text) TO app;
--   GRANT EXECUTE ON FUNCTION "brim_format"."period_at"(timestamp, pg_catalog.interval, pg_catalog.text, pg_catalog.timestamptz) TO app;
--   GRANT EXECUTE ON FUNCTION "brim_format"."apply_limit"(pg_catalog.text, pg_catalog.text, double precision, pg_catalog.text, pg_catalog.timestamptz) TO app;
--   GRANT EXECUTE ON FUNCTION "brim_format"."try_fillup"(pg_catalog.text, double precision, double precision, double precision) TO app;
--   GRANT EXECUTE ON FUNCTION "brim_format"."try_fillup"(pg_catalog.text, double precision, pg_catalog.text) TO app;
--   GRANT EXECUTE ON FUNCTION "brim_format"."fillup"(pg_catalog.text, double precision, double precision, double precision) TO app;
--   GRANT EXECUTE ON FUNCTION "brim_format"."fillup"(pg_catalog.text, double precision, pg_catalog.text) TO app;
--   GRANT EXECUTE ON FUNCTION "brim_format"."able_to_accept"(pg_catalog.text, double precision, double precision, double precision) TO app;
--   GRANT EXECUTE ON FUNCTION "brim_format"."able_to_accept"(pg_catalog.text, double precision, pg_catalog.text) TO app;
--   GRANT EXECUTE ON FUNCTION "brim_format"."drain"(pg_catalog.text, double precision, double precision, double precision) TO app;
--   GRANT EXECUTE ON FUNCTION "brim_format"."drain"(pg_catalog.text, double precision, pg_catalog.text) TO app;
--   GRANT EXECUTE ON FUNCTION "brim_format"."state"(pg_catalog.text, double precision, double precision) TO app;
--   GRANT EXECUTE ON FUNCTION "brim_format"."state"(pg_catalog.text, pg_catalog.text) TO app;
--   GRANT EXECUTE ON FUNCTION "brim_format"."state"(pg_catalog.text) TO app;
--   GRANT EXECUTE ON FUNCTION "brim_format"."block"(pg_catalog.text, pg_catalog.interval) TO app;
--   GRANT EXECUTE ON FUNCTION "brim_format"."unblock"(pg_catalog.text) TO app;

-- migrations.Up and golang-migrate read this table. Leave it out if another tool records the applied migrations.

CREATE TABLE IF NOT EXISTS "brim_format"."buckets_migrations" (version bigint NOT NULL PRIMARY KEY, dirty boolean NOT NULL);
DELETE FROM "brim_format"."buckets_migrations" WHERE version OPERATOR(pg_catalog.<=) 3;
INSERT INTO "brim_format"."buckets_migrations" (version, dirty)
SELECT 3, false WHERE NOT EXISTS (SELECT FROM "brim_format"."buckets_migrations");

COMMIT;
INSERT INTO brim_format.buckets SELECT * FROM jsonb_populate_record(NULL::brim_format.buckets, '{"key": "blocked", "pre": null, "held": 0, "atime": "2026-11-20T12:00:00+00:00", "level": 0, "capacity": 1, "leak_rate": 1, "blocked_until": "2026-11-20T13:00:00+00:00"}');
INSERT INTO brim_format.buckets SELECT * FROM jsonb_populate_record(NULL::brim_format.buckets, '{"key": "held", "pre": null, "held": 2, "atime": "2026-11-20T12:00:00+00:00", "level": 1, "capacity": 4, "leak_rate": 0, "blocked_until": null}');
INSERT INTO brim_format.buckets SELECT * FROM jsonb_populate_record(NULL::brim_format.buckets, '{"key": "level", "pre": null, "held": 0, "atime": "2026-11-20T12:00:00+00:00", "level": 7.5, "capacity": 10, "leak_rate": 0.25, "blocked_until": null}');
INSERT INTO brim_format.buckets SELECT * FROM jsonb_populate_record(NULL::brim_format.buckets, '{"key": "quota", "pre": null, "held": 0, "atime": "2026-11-20T12:00:00+00:00", "level": 7, "capacity": 10, "leak_rate": -1795179600000000, "blocked_until": null}');
INSERT INTO brim_format.buckets SELECT * FROM jsonb_populate_record(NULL::brim_format.buckets, E'{"key": "é''\\n", "pre": null, "held": 0, "atime": "2026-11-20T12:00:00.000001+00:00", "level": 4503599627370496, "capacity": 9007199254740992, "leak_rate": 0.000000000001, "blocked_until": null}');
