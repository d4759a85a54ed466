-- Removes a hold that has ended.
DELETE FROM main."{{prefix}}holds" WHERE account = ?1 AND expires = ?2 AND spend = ?3
