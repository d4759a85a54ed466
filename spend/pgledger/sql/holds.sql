-- What the account $1 holds and what expires by $2, and in the last row the first expiry after that.
(SELECT h.expires, r.id, r.at, r.accounts, r.content, r.answer, r.spend
 FROM {{schema}}.{{holds}} AS h JOIN {{schema}}.{{requests}} AS r ON r.id = h.spend
 WHERE h.account = $1 AND h.expires <= $2)
UNION ALL
SELECT min(h.expires), NULL, NULL, NULL, NULL, NULL, NULL FROM {{schema}}.{{holds}} AS h WHERE h.account = $1 AND h.expires > $2
