-- The rows of the keys in $1, in the columns of read.sql. portable_clock.sql reads the time.
SELECT s.key, s.level, s.atime, s.held, s.capacity, s.leak_rate, s.blocked_until, NULL::timestamptz
FROM {{schema}}.{{table}} AS s
WHERE s.key = ANY ($1::text[])
