-- Entries of the account $1 after the number $3, which was decided at $2: the first $4, with all others
-- of the last time.
SELECT {{columns(e)}} FROM {{schema}}.{{entries}} AS e
WHERE e.account = $1 AND e.at >= $2 AND e.seq > $3
ORDER BY e.at FETCH FIRST ($4::bigint) ROWS WITH TIES
