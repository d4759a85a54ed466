-- A page of the account with the key $1, newest first, below the entry ($2, $3): $4 entries.
SELECT {{columns(e)}} FROM {{schema}}.{{entries}} AS e
WHERE e.account = (SELECT a.id FROM {{schema}}.{{accounts}} AS a WHERE a.key = $1::text) AND (e.at, e.seq) < ($2::timestamptz, $3::bigint)
ORDER BY e.at DESC, e.seq DESC
LIMIT $4
