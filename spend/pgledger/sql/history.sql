-- A page of the account $1, newest first, below the entry ($2, $3): $4 entries.
SELECT {{columns(e)}} FROM {{schema}}.{{entries}} AS e
WHERE e.account = $1 AND (e.at, e.seq) < ($2::timestamptz, $3::bigint)
ORDER BY e.at DESC, e.seq DESC
LIMIT $4
