-- Gives the account $1 the key $2. The row that was made to lock the key is gone by now.
UPDATE {{schema}}.{{accounts}} AS a SET key = $2::text WHERE a.id = $1::bigint
