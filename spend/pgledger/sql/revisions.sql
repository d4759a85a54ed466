-- A page of the rules of the budget $1, newest first, below the seq $2: $3 rows.
SELECT {{revision(r, r.rules)}} FROM {{schema}}.{{rules}} AS r
WHERE r.budget = $1::text AND r.seq < $2
ORDER BY r.seq DESC
LIMIT $3
