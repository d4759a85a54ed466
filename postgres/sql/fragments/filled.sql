-- filled(row, amount, capacity, rate, several, clock)
--
-- The columns that TryFillups change in a row that has room for their sum, the amount. pre has a value
-- where there are several: then each caller's answer needs the level before, which RETURNING does not know
-- before PostgreSQL 18.
level = {{leaked({row}, {clock})}} + {amount},
    pre = CASE WHEN {several} THEN {{leaked({row}, {clock})}} END,
    atime = {{time_to_store({row}, {rate}, {clock}, {{leaked({row}, {clock})}})}},
    capacity = {capacity},
    leak_rate = {rate}
