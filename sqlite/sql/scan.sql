-- Buckets from a key on, in byte order.
SELECT key, level, held, time_us, capacity, leak_rate, blocked_us FROM main."{{prefix}}buckets" WHERE key >= ?1 ORDER BY key
