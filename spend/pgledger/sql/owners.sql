-- The accounts of the spends in $1. Read before they are locked: they never change.
SELECT r.id, r.accounts FROM {{schema}}.{{requests}} AS r WHERE r.id = ANY ($1::text[])
