-- A page of the accounts of the budget ?1 that are due by ?2, after the account with the id ?4 that was due at
-- ?3: at most ?5.
SELECT key, due, id FROM main."{{prefix}}accounts"
WHERE substr(key, 1, instr(key, '/')) = ?1 AND due <> 0 AND due <= ?2 AND (due, id) > (?3, ?4) ORDER BY due, id LIMIT ?5
