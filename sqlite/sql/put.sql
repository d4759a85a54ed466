-- Creates or replaces buckets.
INSERT INTO main."{{prefix}}buckets" (key, level, held, time_us, capacity, leak_rate, blocked_us) VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (key) DO UPDATE SET level = excluded.level, held = excluded.held, time_us = excluded.time_us,
    capacity = excluded.capacity, leak_rate = excluded.leak_rate, blocked_us = excluded.blocked_us
