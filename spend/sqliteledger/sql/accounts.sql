-- Accounts by key.
SELECT id, key, pruned, due, rules, state FROM main."{{prefix}}accounts" WHERE key {{in}}
