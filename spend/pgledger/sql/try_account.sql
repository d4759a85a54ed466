-- Creates the account $1, to learn whether another transaction is creating it.
INSERT INTO {{schema}}.{{accounts}} (key) VALUES ($1::text) ON CONFLICT DO NOTHING
