// Package migrations brings brim's tables in PostgreSQL to the version that this program needs.
//
// Most programs call [Up] once when they start. Up does nothing if the schema is current. It may
// therefore run in every process at once, with a role that may not create anything, and on a
// standby. If a migration is missing, Up takes a lock, and one process migrates while the others
// wait. Up leaves a schema alone that is newer than the program, because old and new processes
// share a schema during a rollout.
//
// The migrations are numbered SQL files for golang-migrate, which [Up] uses. [Files] returns them
// for another migration tool. [SQL] returns one script for a person to run; "brim migrate sql"
// prints it.
//
// # Rights
//
// Up creates a schema and tables, so its role needs CREATE on the database, or on the schema if
// the schema exists. Other programs need USAGE on the schema, and SELECT, INSERT, UPDATE and
// DELETE on the table of buckets. To call Up they need SELECT on the table of applied migrations,
// <table>_migrations. The end of each file lists the lines REVOKE and GRANT for the role of an
// application; those of package spend forbid changes of the ledger's past.
//
// # Partitions
//
// The migrations make plain tables. To partition the table of buckets by the hash of its key, run
// the statements of docs/postgres.md after them. Up finds nothing to do afterwards, and works on
// such a table as well.
//
// # Poolers
//
// The lock is an advisory lock of a session. A pooler in transaction mode (PgBouncer with
// pool_mode=transaction) gives every transaction another session. There the lock protects
// nothing, or is never released. Run Up on a direct connection, or apply the output of "brim
// migrate sql". After that Up finds nothing to do, and works through a pooler as well.
package migrations
