-- The table of buckets, one row per key. A missing row is an empty bucket.
--
-- There is no CHECK: a row that cannot be a bucket reads as damaged, and only its bucket fails. Times
-- are whole microseconds, as integers: from a column declared DATETIME, one driver returns the number,
-- one the right time, and one a time in the year 2178.
CREATE TABLE IF NOT EXISTS main."{{prefix}}buckets" (
    key        TEXT    NOT NULL PRIMARY KEY, -- UTF-8, compared byte by byte
    level      REAL    NOT NULL, -- units that leak, at time_us
    held       REAL    NOT NULL, -- units that do not leak
    time_us    INTEGER NOT NULL, -- microseconds since 1970; it never goes back
    capacity   REAL    NOT NULL, -- units, by the limit last written
    leak_rate  REAL    NOT NULL, -- by the limit last written: units per second, or below 0 the end of the period of a quota in microseconds since 1970, at which all leaves
    blocked_us INTEGER NOT NULL  -- the bucket refuses everything until then; 0 for no block
) STRICT, WITHOUT ROWID;

-- The buckets for people, with the level that they have now.
CREATE VIEW IF NOT EXISTS main."{{prefix}}buckets_now" AS SELECT key,
    CASE WHEN leak_rate >= 0 THEN max(0, level - leak_rate * max(0, (julianday('now') - 2440587.5) * 86400.0 - time_us / 1e6))
         WHEN max((julianday('now') - 2440587.5) * 86400e6, time_us) < -leak_rate THEN level
         ELSE 0 END AS level_now,
    held, capacity, leak_rate,
    strftime('%Y-%m-%d %H:%M:%f', time_us / 1e6, 'unixepoch') AS written,
    CASE WHEN blocked_us <> 0 THEN strftime('%Y-%m-%d %H:%M:%f', blocked_us / 1e6, 'unixepoch') END AS blocked_until
FROM "{{prefix}}buckets";
