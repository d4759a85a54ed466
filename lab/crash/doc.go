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
// moment. For a relaxed store, the calls before its last Sync count as acknowledged.
//
// TestErrors has the n-th write, sync, rename or truncate fail with EIO or ENOSPC: once, with half
// of the write done, or from then on until the disk is healed, which is a disk that was full. It
// compares every answer with the contents that are possible then. A call that succeeded must have
// been applied, a call that failed must not, and a call with an unknown outcome may have been.
//
// # With processes
//
// TestKill kills a child with SIGKILL while it changes its files, goes on with the files in the
// next child, and compares their content with the answers so far.
//
// # Planted faults
//
// A harness that finds nothing may see nothing. So TestPlanted tests stores with a fault each,
// and fails if it goes unnoticed:
//
//   - no sync at all; none before or after bbolt's meta page; none of a compacted file; none of the
//     directory; none of a frame; none of a new log; none of the name of a new log; none of the file
//     while there is a log; none in a relaxed store (edits of a recording);
//   - an answer before the commit, and before the frame is in the log (history.Early, and an edit);
//   - a watermark in the file that runs ahead of the file (history.Ahead);
//   - a Sync that does nothing (history.Unsynced);
//   - an unknown outcome told as one that was not applied (history.Mistold);
//   - a failed Delete told as done (history.Swallowed);
//   - an answer before the commit, and Sync that does nothing, under SIGKILL.
package crash
