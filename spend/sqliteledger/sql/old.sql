-- Requests decided before ?1, in the order of their times, after the request ?3 of the time ?2: at
-- most ?4. The last column tells whether one may go: its first account has a row and starts with
-- ?5, and nothing is held of its spend.
SELECT r.rowid, r.at, coalesce(substr((SELECT a.key FROM main."{{prefix}}accounts" AS a WHERE a.id = r.account), 1, length(?5)) = ?5, 0)
       AND NOT EXISTS (SELECT 1 FROM main."{{prefix}}holds" AS h WHERE h.spend = r.id)
FROM main."{{prefix}}requests" AS r WHERE r.at < ?1 AND (r.at, r.rowid) > (?2, ?3) ORDER BY r.at, r.rowid LIMIT ?4
