-- fits(row, rate, clock, amount, capacity)
--
-- Whether the amount fits into the row.
{{leaked({row}, {rate}, {clock})}} + {row}.held + {amount} <= {capacity}
