-- The highest id of an account, or 0.
SELECT COALESCE(max(a.id), 0::bigint) FROM {{schema}}.{{accounts}} AS a
