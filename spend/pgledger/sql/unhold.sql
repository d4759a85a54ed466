-- Removes holds that have ended. For ANY see store.sql.
DELETE FROM {{schema}}.{{holds}} AS h
USING unnest($1::text[], $2::timestamptz[], $3::text[]) AS u (account, expires, spend)
WHERE h.account = ANY (ARRAY[u.account]) AND h.expires = ANY (ARRAY[u.expires])
  AND h.spend = ANY (ARRAY[u.spend])
