-- The holds of the account $1 that expire by $2, with the requests that began them. The last
-- row has the first expiry after that.
(SELECT h.expires, r.id, r.at, r.accounts, r.content, r.answer, r.spend
 FROM {{schema}}.{{holds}} AS h JOIN {{schema}}.{{requests}} AS r ON r.id = h.spend
 WHERE h.account = $1 AND h.expires <= $2)
UNION ALL
SELECT min(h.expires), NULL, NULL, NULL, NULL, NULL, NULL
FROM {{schema}}.{{holds}} AS h WHERE h.account = $1 AND h.expires > $2
