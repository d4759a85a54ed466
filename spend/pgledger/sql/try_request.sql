-- Stores an answer to the ID $1, to learn whether another transaction is storing one.
INSERT INTO {{schema}}.{{requests}} (id, at, account, content, answer)
VALUES (decode($1::text, 'hex'::text), timestamptz 'epoch', 0::bigint, ''::bytea, ''::bytea) ON CONFLICT DO NOTHING
