-- Removes a bucket.
DELETE FROM main."{{prefix}}buckets" WHERE key = ?1
