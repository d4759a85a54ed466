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
// The store answers when the decision is on the disk. With a journal that takes one fdatasync of
// the journal; without a journal it takes a commit of the file, which has two. A program that is
// killed at any moment loses no acknowledged decision. A call in flight at that moment may or may
// not have been applied. If the disk reports a sync that it has not done, a power failure can lose
// acknowledged decisions.
//
// Concurrent callers are combined: all calls that queued while a flush was under way go into the
// next flush together, so hundreds of callers share the cost of one. Nobody waits for a timer. A
// refusal writes nothing, but for the first one under another leak rate, which ends the time at the
// old rate, one that begins a penalty, and one that finds the time of its bucket ahead.
//
// Reads see all decisions that were acknowledged, and do not wait for the flush under way. If the
// last answer about a bucket was a refusal, the next refusal does not wait either. Such reads and
// refusals may see a decision a moment before the caller of that decision gets the answer.
//
// # The journal
//
// A store of [Open] appends each change to a journal, a write-ahead log in a second file beside the
// first, whose name ends in ".journal". Changed buckets are kept in memory. The journal has two
// halves of at most 32 MiB; see [Options.LogSize]. When one half is full, a checkpoint writes the
// changes to the file in the background, in large sorted commits. The last of them records the
// position in the journal up to which the file has all changes. Buckets that one checkpoint wrote
// are read from memory until the next. The first change of a store goes straight to the file, so a
// program that changes one bucket makes no journal.
//
// Close writes all changes to the file and removes the journal. After Close the file alone is
// enough. A kill leaves a file and a journal, which belong together: copy, move and restore both,
// or use [Store.Backup], whose copy needs no journal.
//
// Package spend/boltledger keeps its accounts in the same file and its changes in the same journal.
// Both packages answer only when a decision is durable. So if one decision was answered before
// another began, no crash keeps the second and loses the first, even if the store made one and the
// ledger the other. A fill and a decision of the ledger in one [Store.Update] become durable
// together. An Update larger than half a journal is a commit of the file.
//
// File and journal are described byte by byte in docs/internals/files.md. A journal of an earlier
// format is refused: open the file with the version that wrote it and close it, which moves the
// journal into the file.
//
// # Damage
//
// Every record has two checksums: one of its key, and one of its key and content. Totals count all
// records. Damage is an error that is [store.ErrCorrupt]; a damaged bucket never reads as empty.
//
// If only the content of a record is damaged, only calls for its bucket return the error, and
// Delete removes the bucket and the damage. Visit visits all other buckets before it returns the
// error. Prune passes over the bucket, and Compact keeps it as it is.
//
// bbolt trusts the pages that it reads. On a damaged file it would go back a commit, miss buckets
// or panic. So [Open] checks every page and every record before bbolt sees the file, and refuses
// the file if damage can hide a bucket. The remedy is the last backup, so make backups, with
// [Store.Backup] or the command "brim backup". If the file is damaged while it is open, the store
// finds the damage in a record when a call uses the record; panics and faults in bbolt become
// errors. See [Options.NoVerify] and [Store.Verify].
//
// # Limits
//
// A store with [Options.SyncEvery] promises less: it answers when the decision is in the journal,
// and syncs the journal at intervals. A kill of the program loses nothing, and a failure of the
// machine the last moments. A lone caller gets its answers thirty to forty times as fast where a
// sync takes 200 µs. Hundreds of callers, who share each sync anyway, gain little.
//
// One process has the file open at a time. Another process waits for [Options.LockTimeout], and
// is then refused. Processes that must share buckets share them through package sqlite,
// postgres or redisstore. A file on a network file system is as safe as the locks and syncs of that
// system.
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
// refuses all work with [store.ErrMisconfigured] until it is closed and opened again: no limit
// opens for as long as nobody looks.
//
// A full disk, or a file at its allowed size, is only [store.ErrUnavailable]: nothing was
// applied, the file is whole, and the store goes on when there is room again.
package bolt
