// Package crash tests the storage engine under crashes, by bolt stores and ledgers that use it.
//
// # In one process
//
// All files of the engine are changed through package vfs of the root module. A recorder takes the
// place of the operating system there. It records every write, sync, resize and change of a name,
// those of bbolt included, and when each call of a history is acknowledged.
//
// TestPower cuts the power at every moment of a recording. It builds files that a disk can hold
// then, with sectors lost in any combination, opens them, and compares their content with the
// history. The content must be that after some call; no acknowledged call may be missing, and no
// call may be there that had not begun. The image with nothing lost is that of a kill at this
// moment, which loses nothing. Of a store with SyncEvery, a power cut may lose changes that
// were acknowledged after the last sync of its journal that returned, from some call on.
//
// TestErrors has the n-th write, sync, rename or truncate fail with EIO or ENOSPC: once, with half
// of the write done, or from then on until the disk is healed, which is a disk that was full. It
// compares every answer with the contents that are possible then. A call that succeeded must have
// been applied, a call that failed must not, and a call with an unknown outcome may have been.
//
// # SQLite
//
// With the build tag sqlite, packages sqlite and spend/sqliteledger are tested in the place of the
// engine, in WAL mode and with a rollback journal: "go test -tags sqlite ./crash". The recorder is
// then the file system of SQLite (its VFS), which the driver ncruces/go-sqlite3 lets a program
// write. The driver takes a minute to compile, so "make drivers" runs these tests at night. The
// index of a log, which lies in memory that processes share, is not recorded: SQLite makes it anew
// after a power cut.
//
// # With processes
//
// TestKill kills a child with SIGKILL while it changes its files, goes on with the files in the
// next child, and compares their content with the answers so far.
//
// # Planted faults
//
// A harness that finds nothing may see nothing. So TestPlanted, TestPlantedErrors and
// TestPlantedKills test stores with a fault each, and fail if it goes unnoticed: syncs that are
// left out, answers before the write, a watermark that runs ahead of the file, a Sync that does
// nothing, errors that tell lies.
package crash
