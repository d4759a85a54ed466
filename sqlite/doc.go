// Package sqlite keeps buckets in a table of the application's own SQLite database: one host, any
// number of processes, no server. The application chooses the driver; the package knows only
// database/sql. docs/sqlite.md compares the drivers, and tells how to open a database.
//
//	db, err := sql.Open("sqlite", "file:app.db?_pragma=journal_mode(WAL)")
//	...
//	limits, err := sqlite.New(ctx, db, nil)
//	...
//	defer limits.Close()
//	lim := brim.New(limits, nil)
//
// [Store.With] lets a fill commit, or roll back, with the rows that it pays for. Package
// spend/sqliteledger keeps its accounts in the same database.
//
// # Promises
//
// A decision is made in a transaction that has SQLite's one write lock from its beginning. So
// processes that share the file share its buckets exactly. Calls that queued while a transaction
// was under way go into the next one together. A call that changes nothing syncs nothing.
//
// The store answers when the transaction has committed. On the connection of the transaction,
// PRAGMA synchronous is FULL, whatever the driver or the application has set, and EXTRA outside of
// the WAL mode: an acknowledged decision survives a power failure. [Options.Relaxed] leaves the
// setting as it is. The application commits the calls of [Store.With], so they are as durable as
// its own rows: [Store.Check] tells how much that is.
//
// Reads see all decisions that were acknowledged, by whatever process, and do not wait for writers.
//
// # Processes and connections
//
// While another connection has the write lock, a flush waits up to [Options.LockTimeout], and then
// its callers get [store.ErrUnavailable]. SQLite has no queue: a transaction that holds the lock
// for long stops everybody, and those who wait are not served in their order. The pauses of the
// store are short, so processes that use it get the lock about equally often.
//
// A pool of one connection for all writes is good: callers then wait in its queue. An application
// that holds the only connection must not call the store but by With.
//
// # What an application must not do
//
//   - Open the file of the database, or its -wal or -shm, by other means than SQLite, in the
//     process that uses it: not even to copy it. Closing any descriptor of a file ends all POSIX
//     locks that the process has on it. The next process that closes the database may then remove
//     the log that is in use, and acknowledged decisions are lost. The store finds this out at its
//     next commit, answers [store.ErrUnknownOutcome], and then refuses all work with
//     [store.ErrMisconfigured]. To copy the database, use [Store.Backup].
//   - Use two drivers for one file in one process: they do not see each other's locks, and damage
//     the file. [New] refuses the second.
//   - Put the file on a network file system, or share it between hosts or containers that have no
//     memory in common.
//
// # Damage
//
// A row that cannot be a bucket is [store.ErrCorrupt] for calls that need its bucket, and no empty
// bucket. Delete removes it. Rows have no checksums; damage to pages is found by SQLite, where it
// is found at all.
package sqlite
