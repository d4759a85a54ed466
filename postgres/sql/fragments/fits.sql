-- fits(row, clock, amount, capacity)
--
-- Whether the amount fits into the row. An amount that fits on top of the stored level fits on
-- what is left of it as well. That test costs less than the leak, and mostly decides.
({row}.level + {row}.held + {amount} <= {capacity}
 OR {{leaked({row}, {clock})}} + {row}.held + {amount} <= {capacity})
