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
// The store answers when the decision is on the disk: after one fdatasync of the journal beside the
// file, or after a commit of the file with its two. A program that is killed at any moment loses no
// acknowledged decision. A call in flight at that moment may or may not have been applied.
// Concurrent callers are combined: all calls that queued while a flush was under way go into the
// next flush together, so hundreds of callers pay for one. Nobody waits for a timer. A refusal
// writes nothing.
//
// Reads see all decisions that were acknowledged, and do not wait for the flush under way. Refusals
// of a bucket whose last answer was a refusal do not wait either. They may see a decision a moment
// before its own caller gets the answer.
//
// # The journal
//
// A store of [Open] keeps the buckets that are in use in memory, some 200 bytes each, at most about
// [Options.Cached] and those that the file does not have yet. It appends each change to the journal
// and writes changes to the file in large sorted commits when half of the journal is full. Each
// commit notes how far the file has come. A kill leaves a file and a journal, which belong
// together: copy, move and restore both, or use [Store.Backup]. After Close the file alone is
// enough.
//
// Package spend/boltledger keeps its accounts in the same file and its changes in the same journal,
// whose two halves then have 32 MiB each instead of 8. An answer of either is durable when it is
// given. So if one decision was answered before another began, no crash keeps the second and loses
// the first, whichever of the two made it.
//
// [Store.Update] commits to the file, too: one commit, which also writes the decisions in the
// journal.
//
// Every record has a checksum of its key and one of its key and content, and totals count all
// records. Damage is an error that is [store.ErrCorrupt]; a damaged bucket never reads as empty.
// If only the content of a record is damaged, its bucket alone answers the error, and Delete
// mends it; Scan lists all others and returns the error with them, Prune passes over the bucket,
// and Compact keeps it as it is. bbolt believes the file that it reads, and would go back a
// commit, miss buckets or panic. So [Open] checks every page and every record before bbolt sees
// the file, and refuses it if a bucket can be hidden; the command "brim verify --salvage NEW"
// then saves the rest. If the file is damaged while it is open, the store finds the damage in a
// record when a call uses the record; panics and faults in bbolt become errors. See
// [Options.NoVerify] and [Store.Verify].
//
// # Limits
//
// [OpenRelaxed] promises less and is much faster: it answers before it writes, and a crash loses
// the last moments.
//
// One process has the file open at a time. Another process waits for [Options.LockTimeout], and
// is then refused. Processes that must share buckets share them through package postgres or
// redisstore. A file on a network file system is as safe as the locks and syncs of that system.
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
