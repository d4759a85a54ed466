-- A page of accounts whose keys start with $1 and come after $2, in byte order, at most $3 of
-- them. $4 is the end of the range, or null; see page.sql of package postgres.
SELECT a.key FROM {{schema}}.{{accounts}} AS a
WHERE a.key > $2::text AND a.key >= $1::text AND starts_with(a.key, $1::text)
  AND a.key < COALESCE($4::text, (SELECT max(m.key) || ' ' FROM {{schema}}.{{accounts}} AS m))
ORDER BY a.key
LIMIT $3
