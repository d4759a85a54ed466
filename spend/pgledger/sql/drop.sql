-- Removes entries that no rule needs any more. For ANY see store.sql.
DELETE FROM {{schema}}.{{entries}} AS e
USING unnest($1::text[], $2::timestamptz[]) AS u (account, at)
WHERE e.account = ANY (ARRAY[u.account]) AND e.at <= u.at
