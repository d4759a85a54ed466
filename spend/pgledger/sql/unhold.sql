-- Removes holds that have ended.
DELETE FROM {{schema}}.{{holds}} AS h
USING unnest($1::text[], $2::timestamptz[], $3::text[]) AS u (account, expires, spend)
WHERE h.account = u.account AND h.expires = u.expires AND h.spend = u.spend
