-- The accounts of the spends in $1. They never change, so they are read before they are locked.
SELECT r.id, r.accounts FROM {{schema}}.{{requests}} AS r WHERE r.id = ANY ($1::text[])
