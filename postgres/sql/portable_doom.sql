-- The key $1 if its bucket had leaked empty at the time $2. It locks the row, and passes over a row
-- that somebody else has locked, because such a bucket is in use.
SELECT t.key FROM {{schema}}.{{table}} AS t
WHERE t.key = $1::text AND {{expired(t, $2::timestamptz)}}
FOR UPDATE SKIP LOCKED
