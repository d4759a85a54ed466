-- Buckets by key.
SELECT key, level, held, time_us, capacity, leak_rate, blocked_us FROM main."{{prefix}}buckets" WHERE key {{in}}
