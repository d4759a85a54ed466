-- A replication slot that keeps old versions of rows and that nobody uses, or no row.
SELECT r.slot_name::text FROM pg_catalog.pg_replication_slots AS r
WHERE r.xmin IS NOT NULL AND NOT r.active
ORDER BY r.slot_name::text LIMIT 1
