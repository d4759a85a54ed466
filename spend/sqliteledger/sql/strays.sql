-- Whether an entry or a hold belongs to no account. The walk reads one entry of each account.
WITH RECURSIVE owners (id) AS (
    SELECT min(account) FROM main."{{prefix}}entries"
    UNION ALL
    SELECT (SELECT min(e.account) FROM main."{{prefix}}entries" AS e WHERE e.account > o.id) FROM owners AS o WHERE o.id IS NOT NULL
)
SELECT EXISTS (SELECT 1 FROM (SELECT id FROM owners WHERE id IS NOT NULL UNION SELECT account FROM main."{{prefix}}holds") AS o
               WHERE NOT EXISTS (SELECT 1 FROM main."{{prefix}}accounts" AS a WHERE a.id = o.id))
