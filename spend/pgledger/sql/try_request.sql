-- Stores an answer to the ID $1, to learn whether another transaction is storing one.
INSERT INTO {{schema}}.{{requests}} (id, at, accounts, content, answer)
VALUES ($1::text, 'epoch', '{}', '', '') ON CONFLICT DO NOTHING
