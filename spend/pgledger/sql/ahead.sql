-- Accounts of requests that were decided more than a minute after the server's time, $1 of them at
-- most, with the currency of their last entry and that time. The index on the time of requests leads
-- to the pages with such requests, and to no others.
SELECT a.key, e.currency, {{instant(d.now)}}
FROM (SELECT DISTINCT u.id, c.now
      FROM (SELECT pg_catalog.now() AS now OFFSET 0) AS c
           JOIN {{schema}}.{{requests}} AS r ON r.at > pg_catalog.now() + interval '1 minute'
           CROSS JOIN LATERAL pg_catalog.unnest({{ids(r)}}) AS u (id)
      LIMIT $1) AS d
     CROSS JOIN LATERAL (SELECT a.key FROM {{schema}}.{{accounts}} AS a WHERE a.id = d.id OFFSET 0) AS a
     CROSS JOIN LATERAL (SELECT e.currency FROM {{schema}}.{{entries}} AS e WHERE e.account = d.id
                         ORDER BY e.at DESC, e.seq DESC LIMIT 1) AS e
