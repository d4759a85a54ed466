-- A page of the accounts of the budget $1 that are due by $2, in the order of the index, after the account
-- with the id $4 that was due at $3: at most $5.
SELECT a.key, {{instant(a.due)}}, a.id FROM {{schema}}.{{accounts}} AS a
WHERE split_part(a.key, '/'::text, 1) = $1::text AND a.due <= $2 AND (a.due, a.id) > ($3::timestamptz, $4::bigint)
ORDER BY a.due, a.id
LIMIT $5
