-- A page of the account with the key $1, newest first, below the entry ($2, $3): $4 entries. Entries that
-- no rule needs any more may wait for the end of their partition, and count as removed.
SELECT {{columns(e)}} FROM {{schema}}.{{entries}} AS e
WHERE e.account = (SELECT a.id FROM {{schema}}.{{accounts}} AS a WHERE a.key = $1::text) AND (e.at, e.seq) < ($2::timestamptz, $3::bigint)
  AND e.at > (SELECT COALESCE(a.pruned, timestamptz '-infinity') FROM {{schema}}.{{accounts}} AS a WHERE a.key = $1::text)
ORDER BY e.at DESC, e.seq DESC
LIMIT $4
