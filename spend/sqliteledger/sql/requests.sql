-- Answers by ID.
SELECT r.id, r.at, (SELECT a.key FROM main."{{prefix}}accounts" AS a WHERE a.id = r.account), r.also, r.content, r.answer, r.spend
FROM main."{{prefix}}requests" AS r WHERE r.id {{in}}
