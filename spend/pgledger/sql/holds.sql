-- The holds of the account $1 that expire by $2, at most $3 after the expiry $6 and the ID $7, and those of its
-- row, which are in $4 and $5, with the requests that began them, or nulls. The last row has the first expiry after $2, and no spend.
(SELECT {{instant(h.expires)}}, {{octets(h.spend)}}, {{request(r)}}
 FROM ((SELECT h.expires, h.spend FROM {{schema}}.{{holds}} AS h
        WHERE h.account = $1 AND h.expires <= $2 AND (h.expires, h.spend) > ($6::timestamptz, $7::bytea)
        ORDER BY h.expires, h.spend LIMIT $3)
       UNION ALL
       SELECT pg_catalog.unnest($4::timestamptz[]), pg_catalog.unnest($5::bytea[])) AS h
      LEFT JOIN LATERAL (SELECT r.* FROM {{schema}}.{{requests}} AS r WHERE r.id = h.spend OFFSET 0) AS r ON true)
UNION ALL
SELECT {{instant(min(h.expires))}}, NULL, NULL, NULL, NULL, NULL, NULL, NULL
FROM {{schema}}.{{holds}} AS h WHERE h.account = $1 AND h.expires > $2
