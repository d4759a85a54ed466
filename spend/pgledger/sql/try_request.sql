-- Stores an answer to the ID $1, to learn whether another transaction is storing one.
INSERT INTO {{schema}}.{{requests}} (id, at, accounts, content, answer)
VALUES ($1::text, timestamptz 'epoch', '{}'::text[], ''::bytea, ''::bytea) ON CONFLICT DO NOTHING
