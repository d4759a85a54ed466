-- Removes the requests ?1 if they were decided before ?2 and nothing is held of their spends.
DELETE FROM main."{{prefix}}requests" WHERE rowid IN (SELECT value FROM json_each(?1)) AND at < ?2
    AND NOT EXISTS (SELECT 1 FROM main."{{prefix}}holds" AS h WHERE h.spend = id)
