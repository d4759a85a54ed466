-- stored(row)
--
-- The columns of a row, as columns.stored reads them.
{{bits({row}.level)}}, {{instant({row}.atime)}}, {{bits({row}.held)}}, {{bits({row}.capacity)}},
{{bits({row}.leak_rate)}}, {{instant({row}.blocked_until)}}
