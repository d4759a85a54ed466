-- of_key(one, each)
--
-- The parameter one, or where that is null the element of the array each that belongs to the key
-- of the row t. The place of the key among the sorted keys $1 is found by bisection.
COALESCE({one}::float8, ({each}::float8[])[width_bucket(t.key, $1::text[])])
