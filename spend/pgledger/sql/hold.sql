-- Opens holds.
INSERT INTO {{schema}}.{{holds}} (account, expires, spend)
SELECT u.account, u.expires, u.spend
FROM unnest($1::text[], $2::timestamptz[], $3::text[]) AS u (account, expires, spend)
