-- The tables of package spend. Only that package writes rows, and Verify compares them with the
-- figures. Times are microseconds since 1970, amounts minor units of a currency.

-- The working set of decisions. The id stands for the account in all other tables, so a new name is a
-- change of one row. Only package spend reads state, whose content follows from the entries, and rules.
CREATE TABLE IF NOT EXISTS main."{{prefix}}accounts" (
    id     INTEGER NOT NULL PRIMARY KEY,
    key    TEXT    NOT NULL UNIQUE, -- the name of the budget, a slash, and the name of the account
    pruned INTEGER NOT NULL, -- no rule needs the entries up to then; 0 for none
    due    INTEGER NOT NULL, -- before then Prune has nothing to do on the account; 0 for never
    rules  BLOB,
    state  BLOB
) STRICT;

-- Prune finds the accounts of a budget that are due.
CREATE INDEX IF NOT EXISTS main."{{prefix}}accounts_due" ON "{{prefix}}accounts" (substr(key, 1, instr(key, '/')), due) WHERE due <> 0;

-- The entries. Rows are inserted and never updated. Only those are deleted that no rule needs any more.
-- A column is null where it repeats another one; the view {{prefix}}ledger shows all columns with their
-- values.
CREATE TABLE IF NOT EXISTS main."{{prefix}}entries" (
    account      INTEGER NOT NULL,
    at           INTEGER NOT NULL, -- time of the decision, or that of the previous entry if it is later
    seq          INTEGER NOT NULL, -- 1, 2, 3 ... in its account
    dated        INTEGER, -- the date at which it counts; null for at
    part         INTEGER, -- seq of the corrected entry, or 0 for an entry with an earlier date; null if it corrects none
    kind         TEXT    NOT NULL,
    id           TEXT    NOT NULL, -- of the request that caused the entry
    spend        TEXT, -- ID of the request that began the spend; empty if it was declined; null for id
    currency     TEXT    NOT NULL,
    amount       INTEGER NOT NULL, -- that was approved, or that was asked if it was declined
    spend_amount INTEGER, -- of the request that began the spend, or of the credit; null for amount
    asked        INTEGER NOT NULL, -- by an UpTo or Increase of which less was approved
    least        INTEGER NOT NULL, -- of an UpTo or Increase; -1 for an authorization that no rule has judged
    ttl          INTEGER NOT NULL, -- that the request asked for, in microseconds
    used         INTEGER NOT NULL, -- change of the amount spent
    held         INTEGER NOT NULL, -- change of the amount reserved
    spends       INTEGER NOT NULL, -- change of the number of spends that count for good
    expires      INTEGER NOT NULL, -- end of the hold whose money the entry moves; 0 if it moves none
    pending      INTEGER NOT NULL, -- change of the number of spends that count until expires
    becomes      INTEGER NOT NULL, -- 1 if held money becomes used at expires
    tags         TEXT, -- JSON
    refused      TEXT, -- JSON: the names of the rules that declined it
    credited     TEXT, -- JSON: the part of a credit that each rule has counted
    PRIMARY KEY (account, at, seq)
) STRICT, WITHOUT ROWID;

-- Corrections by the date at which they count. All other entries are found by their time.
CREATE INDEX IF NOT EXISTS main."{{prefix}}entries_dated" ON "{{prefix}}entries" (account, dated, seq) WHERE dated IS NOT NULL;

-- The answer to each ID, and the spend that the request began, as it is now. The index on id makes a
-- request happen at most once.
CREATE TABLE IF NOT EXISTS main."{{prefix}}requests" (
    id      TEXT    NOT NULL UNIQUE,
    at      INTEGER NOT NULL, -- of the decision
    account INTEGER NOT NULL,
    also    TEXT, -- JSON: the ids of its further accounts; null for none
    content BLOB, -- digest of the request
    answer  BLOB,
    spend   BLOB
) STRICT;
CREATE INDEX IF NOT EXISTS main."{{prefix}}requests_at" ON "{{prefix}}requests" (at);

-- The open holds. The row of a hold is deleted when the hold ends.
CREATE TABLE IF NOT EXISTS main."{{prefix}}holds" (
    account INTEGER NOT NULL,
    expires INTEGER NOT NULL,
    spend   TEXT    NOT NULL, -- ID of the request that began the spend
    PRIMARY KEY (account, expires, spend)
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS main."{{prefix}}holds_spend" ON "{{prefix}}holds" (spend);

-- The rules of budgets, in revisions. Rows are inserted, and never updated or deleted. Those with the
-- highest seq are in force.
CREATE TABLE IF NOT EXISTS main."{{prefix}}rules" (
    budget   TEXT    NOT NULL,
    seq      INTEGER NOT NULL, -- 1, 2, 3 ... in its budget
    revision INTEGER NOT NULL, -- number that the author of the rules gave them
    at       INTEGER NOT NULL,
    held     INTEGER NOT NULL, -- 1 if programs do not replace the rules when they start
    author   TEXT    NOT NULL, -- who has set the rules; may be empty
    reason   TEXT    NOT NULL, -- why; may be empty
    digest   BLOB    NOT NULL, -- of all other columns
    rules    TEXT    NOT NULL, -- in their JSON form
    PRIMARY KEY (budget, seq)
) STRICT, WITHOUT ROWID;

-- The entries for people: names instead of numbers, dates, and a value in every column.
CREATE VIEW IF NOT EXISTS main."{{prefix}}ledger" AS SELECT a.key AS account, e.seq,
    strftime('%Y-%m-%d %H:%M:%f', e.at / 1e6, 'unixepoch') AS at,
    strftime('%Y-%m-%d %H:%M:%f', coalesce(e.dated, e.at) / 1e6, 'unixepoch') AS dated,
    coalesce(e.part, e.seq) AS part, e.kind, e.id, coalesce(e.spend, e.id) AS spend, e.currency, e.amount,
    coalesce(e.spend_amount, e.amount) AS spend_amount, nullif(e.asked, 0) AS asked, nullif(e.least, 0) AS least,
    nullif(e.ttl, 0) AS ttl, e.used, e.held, e.spends,
    CASE WHEN e.expires <> 0 THEN strftime('%Y-%m-%d %H:%M:%f', e.expires / 1e6, 'unixepoch') END AS expires,
    e.pending, e.becomes, e.tags, e.refused, e.credited
FROM "{{prefix}}entries" AS e JOIN "{{prefix}}accounts" AS a ON a.id = e.account;
