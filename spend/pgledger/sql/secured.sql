-- Whether row security applies to the user on one of the tables $1.
SELECT bool_or(row_security_active(t.name)) FROM pg_catalog.unnest($1::text[]) AS t (name)
