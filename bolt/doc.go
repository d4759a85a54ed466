// Package bolt keeps buckets in a bbolt file: one program, no server, and limits that survive its restart.
//
//	db, err := bolt.Open("limits.db", nil)
//	...
//	defer db.Close()
//	lim := brim.New(db, nil)
//
// A program that keeps its own data in bbolt can put the buckets beside it: [New] takes its *bbolt.DB, and [Store.With] lets
// a fill commit, or roll back, with the rows that it pays for.
//
// # What is promised
//
// An answer is given when the decision is on the disk: after the commit, with its two fdatasyncs, has returned. A program
// that is killed at any moment loses nothing that was acknowledged; what was in flight may or may not have been applied.
// Concurrent callers are combined: whatever queued while the last commit was under way goes into the next one together, so
// that hundreds of callers pay for one commit. Nobody waits for a timer. A refusal writes nothing.
//
// Reads, and refusals of a bucket that has just refused before, are answered from the newest commit without waiting for the
// one under way. They may see a decision a moment before its own caller is told of it.
//
// Every record carries a checksum over its key and value, and the file one over all records. Damage is an error that is
// [store.ErrCorrupt], never a bucket that is silently empty again. [Open] checks every page and every record before bbolt
// sees the file: bbolt believes what it reads, and would go back a commit, miss buckets or panic. What is damaged while the
// file is open is found record by record as it is used; panics and faults in bbolt become errors. See [Options.NoVerify]
// and [Store.Verify].
//
// # What is not
//
// [OpenRelaxed] promises less and is much faster: it answers before it writes, and a crash loses the last moments.
//
// One process has the file at a time; others wait for [Options.LockTimeout] and are refused. Processes that must share
// buckets share them through package postgres. A file on a network file system is as safe as that system's locks and syncs.
//
// Damage to the references between pages that comes about while the file is open can have bbolt run in circles, which no
// program survives; the next Open refuses the file.
//
// The file does not shrink by itself: pages of buckets that were removed are used again, and [Store.Compact] gives them
// back.
//
// # After an error of the disk
//
// If the disk fails while the newest commit is made durable, nobody can know what a restart will find:
// every caller of that commit gets [store.ErrUnknownOutcome], and the store refuses all further work with
// [store.ErrUnavailable] until it is closed and opened again. A disk that is full, or a file at its allowed size, is only
// [store.ErrUnavailable]: nothing was applied, the file is whole, and the store goes on when there is room again.
package bolt
