-- Removes requests of accounts that start with $1 and that were decided before $2, except those
-- that began a spend of which something is still held.
DELETE FROM {{schema}}.{{requests}} AS r
WHERE r.at < $2 AND starts_with(r.accounts[1], $1::text)
  AND NOT EXISTS (SELECT FROM {{schema}}.{{holds}} AS h WHERE h.spend = r.id)
