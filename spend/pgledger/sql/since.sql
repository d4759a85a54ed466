-- The first $4 entries of the account $1 after the number $3, which was decided at $2. The plain
-- condition on the time tells the server the partitions to read.
SELECT {{columns(e)}} FROM {{schema}}.{{entries}} AS e
WHERE e.account = $1 AND e.at >= $2 AND (e.at, e.seq) > ($2, $3::bigint) AND e.seq > $3
ORDER BY e.at, e.seq LIMIT $4::bigint
