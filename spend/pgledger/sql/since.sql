-- Entries of the account $1 after the number $3, which was decided at $2.
SELECT {{columns(e)}} FROM {{schema}}.{{entries}} AS e
WHERE e.account = $1 AND e.at >= $2 AND e.seq > $3
ORDER BY e.at, e.seq
