-- Replaces accounts whose due stays as it is. The index on due is then left alone.
INSERT INTO main."{{prefix}}accounts" (id, key, pruned, due, rules, state) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO UPDATE SET pruned = excluded.pruned, rules = excluded.rules, state = excluded.state
