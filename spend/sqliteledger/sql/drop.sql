-- Removes entries that no rule needs any more.
DELETE FROM main."{{prefix}}entries" WHERE account = ?1 AND at <= ?2
