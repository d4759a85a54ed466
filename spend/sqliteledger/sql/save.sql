-- Creates or replaces accounts.
INSERT INTO main."{{prefix}}accounts" (id, key, pruned, due, rules, state) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO UPDATE SET pruned = excluded.pruned, due = excluded.due, rules = excluded.rules, state = excluded.state
