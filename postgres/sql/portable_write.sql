-- Stores the row of the key $1, which portable_lock.sql has locked.
UPDATE {{schema}}.{{table}} AS t
SET level = $2::float8, atime = $3::timestamptz, held = $4::float8, capacity = $5::float8,
    leak_rate = $6::float8, blocked_until = $7::timestamptz
WHERE t.key = $1::text
