-- Removes requests of accounts that start with $1 and that were decided before $2, except those
-- that began a spend of which something is still held. It reads all requests, and looks into the
-- index for the holds of those that it may remove.
DELETE FROM {{schema}}.{{requests}} AS r
WHERE r.at < $2 AND starts_with(r.accounts[1], $1::text)
  AND NOT EXISTS (SELECT FROM pg_catalog.unnest(r.accounts) AS u (key)
                  CROSS JOIN LATERAL (SELECT FROM {{schema}}.{{holds}} AS h
                                      WHERE h.account = u.key AND h.spend = r.id OFFSET 0) AS h)
