-- The answers to the IDs in $1.
SELECT r.id, r.at, r.accounts, r.content, r.answer, r.spend
FROM {{schema}}.{{requests}} AS r WHERE r.id = ANY ($1::text[])
