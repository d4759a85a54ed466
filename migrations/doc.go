// Package migrations brings brim's tables in PostgreSQL to the version that this program needs.
//
// [Up] is what most programs call, once, when they start: it does nothing where the schema is current, so it may run in every
// process at once, with a role that may not create anything, and on a standby. Only where something has to change does it
// take a lock, and then one process changes it while the others wait. A schema that is newer than the program is left alone:
// during a rollout old and new processes share it.
//
// The files are numbered SQL for golang-migrate, and [Up] runs them with it. Who prefers another tool takes [Files], and who
// has to hand a script to somebody else takes [SQL], which "brim migrate sql" prints.
//
// # Rights
//
// Up creates a schema and tables, so the role needs CREATE on the database, or on the schema if that is there already. The
// programs themselves need USAGE on the schema, SELECT, INSERT, UPDATE and DELETE on the table of buckets, and, to call Up,
// SELECT on the table <table>_migrations, which says what was applied.
//
// # Poolers
//
// The lock is an advisory lock of a session. A pooler in transaction mode (PgBouncer with pool_mode=transaction) gives every
// transaction another session, so the lock protects nothing there, or is never given back. Run Up on a direct connection, or
// apply the output of "brim migrate sql", after which Up finds nothing to do, through a pooler too.
package migrations
