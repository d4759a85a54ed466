-- Appends rules.
INSERT INTO main."{{prefix}}rules" (budget, seq, revision, at, held, author, reason, digest, rules) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
