-- The ids of up to $1 accounts without a row, of which entries or holds are there. The walk over the
-- accounts of entries reads one entry of each, by the primary key.
WITH RECURSIVE owners AS (
    (SELECT e.account AS id FROM {{schema}}.{{entries}} AS e ORDER BY e.account LIMIT 1)
    UNION ALL
    SELECT (SELECT e.account FROM {{schema}}.{{entries}} AS e WHERE e.account > o.id ORDER BY e.account LIMIT 1)
    FROM owners AS o WHERE o.id IS NOT NULL
)
SELECT s.id FROM (SELECT o.id FROM owners AS o WHERE o.id IS NOT NULL UNION SELECT h.account FROM {{schema}}.{{holds}} AS h) AS s
WHERE NOT EXISTS (SELECT FROM {{schema}}.{{accounts}} AS a WHERE a.id = s.id)
ORDER BY s.id LIMIT $1
