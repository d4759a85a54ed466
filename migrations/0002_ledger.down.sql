-- This deletes all spends.
DROP VIEW IF EXISTS {{schema}}.{{ledger}};
DROP TABLE IF EXISTS {{schema}}.{{rules}};
DROP TABLE IF EXISTS {{schema}}.{{holds}};
DROP TABLE IF EXISTS {{schema}}.{{spends}};
DROP TABLE IF EXISTS {{schema}}.{{requests}};
DROP TABLE IF EXISTS {{schema}}.{{entries}};
DROP TABLE IF EXISTS {{schema}}.{{accounts}};
