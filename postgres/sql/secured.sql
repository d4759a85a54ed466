-- Whether row security applies to the user on the table.
SELECT row_security_active({{'table'}}::text)
