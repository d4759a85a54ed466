// Package bolt keeps buckets in a bbolt file: one program, no server, and limits that survive its
// restart.
//
//	db, err := bolt.Open("limits.db", nil)
//	...
//	defer db.Close()
//	lim := brim.New(db, nil)
//
// A program that keeps its own data in bbolt can put the buckets beside it: [New] takes its
// *bbolt.DB, and [Store.With] lets a fill commit, or roll back, with the rows that it pays for.
//
// # Promises
//
// The store answers when the decision is on the disk: after the commit, with its two fdatasyncs,
// has returned. A program that is killed at any moment loses no acknowledged decision. A call in
// flight at that moment may or may not have been applied. Concurrent callers are combined: all
// calls that queued while a commit was under way go into the next commit together, so hundreds of
// callers pay for one commit. Nobody waits for a timer. A refusal writes nothing.
//
// Reads come from the newest commit and do not wait for the commit under way. Refusals of a
// bucket whose last answer was a refusal do, too. They may see a decision a moment before its own
// caller gets the answer.
//
// Every record has a checksum over its key and value, and the file has one over all records.
// Damage is an error that is [store.ErrCorrupt]; a damaged bucket never reads as empty. bbolt
// believes the file that it reads, and would go back a commit, miss buckets or panic. So [Open]
// checks every page and every record before bbolt sees the file. If the file is damaged while it
// is open, the store finds the damage in a record when a call uses the record; panics and faults
// in bbolt become errors. See [Options.NoVerify] and [Store.Verify].
//
// # Limits
//
// [OpenRelaxed] promises less and is much faster: it answers before it writes, and a crash loses
// the last moments.
//
// One process has the file open at a time. Another process waits for [Options.LockTimeout], and
// is then refused. Processes that must share buckets share them through package postgres. A file
// on a network file system is as safe as the locks and syncs of that system.
//
// If references between pages are damaged while the file is open, bbolt can loop for ever. No
// program survives that; the next Open refuses the file.
//
// The file does not shrink by itself: bbolt uses the pages of removed buckets again, and
// [Store.Compact] gives them back.
//
// # After an error of the disk
//
// If the disk fails while the newest commit is made durable, nobody can know the state that a
// restart will find. Every caller of that commit gets [store.ErrUnknownOutcome]. The store then
// refuses all work with [store.ErrUnavailable] until it is closed and opened again.
//
// A full disk, or a file at its allowed size, is only [store.ErrUnavailable]: nothing was
// applied, the file is whole, and the store goes on when there is room again.
package bolt
