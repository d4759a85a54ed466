-- The accounts with the keys $1 and those of the spends $2. A batch appends FOR NO KEY UPDATE, which
-- locks them in this order. With SKIP LOCKED, it leaves out those that another transaction holds.
SELECT a.key, a.id, {{instant(a.pruned)}}, {{instant(a.due)}}, {{octets(a.rules)}}, {{octets(a.state)}}, a.watch, {{octets(a.holds)}}
FROM {{schema}}.{{accounts}} AS a
WHERE a.key = ANY ({{keys($2)}})
ORDER BY a.key
