-- Replaces the spend that a request began.
UPDATE main."{{prefix}}requests" SET spend = ?2 WHERE id = ?1
