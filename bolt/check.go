package bolt

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/brimgo/brim/internal/boltfile"
	"github.com/brimgo/brim/internal/boltrecord"
	"github.com/brimgo/brim/internal/fsinfo"
	"github.com/brimgo/brim/internal/kv"
	"github.com/brimgo/brim/internal/trial"
	"github.com/brimgo/brim/store"
)

// Check looks at the file of a store, which must not be open in this process, for all that breaks
// or weakens its promises: the file system, its free space, the right to write, damage in the file
// or in its journal, and a journal that the file still needs. It reads the whole file, locked, and
// changes nothing. If another process has the file open, a finding that is [store.Unchecked] says
// so, since only that process can verify it.
//
// The error is that of a file that does not exist or cannot be read.
func Check(ctx context.Context, path string) ([]store.Finding, error) {
	findings, err := check(ctx, path)
	return findings.Findings, store.Wrap(backend, "check "+filepath.Base(path), err)
}

// Check is the function Check for an open store, and tries: it makes a decision of each kind on
// buckets of its own, whose keys begin with "brim.check/", and deletes them again. It verifies all
// buckets by [Store.Verify], while other callers go on. A ledger in the file shares its writes, so
// Check judges it, too.
func (s *Store) Check(ctx context.Context) ([]store.Finding, error) {
	findings, err := s.checkOpen(ctx)
	return findings.Findings, store.Wrap(backend, "check", err)
}

func (s *Store) checkOpen(ctx context.Context) (findings findings, err error) {
	if err := s.db.InPlace(ctx); err != nil {
		return findings, err
	}
	if err := findings.disk(s.db.File().Path()); err != nil {
		return findings, err
	}
	switch err = s.Verify(ctx); {
	case err == nil:
		err = findings.try(ctx, s)
	case errors.Is(err, store.ErrCorrupt):
		findings.Add(store.Broken, "content", err.Error(), seeVerify)
		err = nil
	case errors.Is(err, syscall.ENOSPC): // Verify first writes the journal's content into the file
		findings.Add(store.Broken, "free space", err.Error(), makeRoom)
		err = nil
	}
	return findings, err
}

const makeRoom = "make room, or move the file to a larger disk"

// findings are the results of a check.
type findings struct{ trial.Findings }

// try makes a decision of each kind.
func (f *findings) try(ctx context.Context, s *Store) error {
	failed, err := trial.Try(ctx, s)
	switch {
	case failed == nil:
	case errors.Is(failed, syscall.ENOSPC):
		f.Add(store.Broken, "free space", failed.Error(), makeRoom)
	default:
		f.Add(store.Broken, "decision", failed.Error(), "look at the disk and at the system's log; then start the program again")
	}
	return err
}

// seeVerify is the way out of damage to single values.
const seeVerify = `"brim verify" names them; "brim reset KEY" empties a damaged bucket, and an account of a ledger only comes back with the last backup, which "brim backup" or Store.Backup has made`

// disk looks at the file system of a file.
func (f *findings) disk(path string) error {
	on, size, err := fsinfo.Of(path)
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		f.Add(store.Unchecked, "file system", "this system does not tell the kind of a file system",
			"see that the file is on a local disk with room for a second copy")
		return nil
	case err != nil:
		return boltfile.FileError(err)
	case on.Volatile:
		f.Add(store.Broken, "file system", fmt.Sprintf("the file is on %s: a restart of the machine loses it", on.Name),
			"move the file to a disk")
	case on.Network:
		f.Add(store.Warning, "file system", fmt.Sprintf("the file is on %s: its locks and syncs may not hold, and then two "+
			"processes share the file, or acknowledged fills are lost", on.Name), "move the file to a local disk, or take package postgres")
	}
	switch {
	case on.Free < noSpace:
		f.Add(store.Broken, "free space", fmt.Sprintf("%d KiB are free: a fill cannot be written", on.Free>>10), makeRoom)
	case on.Free < max(size, minFree):
		f.Add(store.Warning, "free space", fmt.Sprintf("%d MiB are free: the file cannot grow, or brim compact cannot make its copy",
			on.Free>>20), makeRoom)
	}
	return nil
}

func check(ctx context.Context, path string) (findings findings, err error) {
	x, err := kv.Examine(ctx, path, 0, boltrecord.Is)
	if err != nil && !boltfile.Locked(err) {
		return findings, err
	}
	if err := findings.disk(path); err != nil {
		return findings, err
	}
	if target, err := filepath.EvalSymlinks(path); err == nil && boltfile.Mounted(target) {
		findings.Add(store.Broken, "place", "the file is a mount point of its own: the journal beside it is kept elsewhere, and lost with the container",
			"mount its directory instead")
	}
	if f, err := os.OpenFile(path, os.O_WRONLY, 0); err == nil {
		_ = f.Close() // nothing was written
	} else if errors.Is(err, syscall.EROFS) {
		findings.Add(store.Broken, "file system", "it is mounted read-only: no fill can be written", "mount it for writing")
	} else {
		findings.Add(store.Broken, "rights", fmt.Sprintf("the file cannot be written: %v", err), "give the user of the program the file: chown, chmod u+w")
	}
	if err != nil {
		findings.Add(store.Unchecked, "content", "another process has the file open, so that it cannot be verified from here",
			"call Store.Check there, or check again when it has ended")
		return findings, nil
	}
	if x.Damage != nil {
		findings.Add(store.Broken, "content", x.Damage.Error(), boltfile.Restore)
	} else if n := x.Damaged(); n > 0 {
		findings.Add(store.Broken, "content", fmt.Sprintf("%d values are damaged, and all others are intact", n), seeVerify)
	}
	if x.Journal != "" {
		findings.Add(store.Broken, "journal", "the journal "+x.Journal, "put the right journal back beside the file; or "+boltfile.Restore)
	} else if x.NeedsLog {
		findings.Add(store.Warning, "journal", fmt.Sprintf("the last program did not close the file, whose journal of %d MiB has %d commits "+
			"that the file lacks, from commit %d on: the file alone is not enough", x.LogSize>>20, x.Commits, x.First),
			`keep both together; the next program that opens and closes the file makes it whole, and so does "brim backup NEW" a copy`)
	}
	return findings, nil
}

// minFree is the free space in bytes below which even a small file is about to fail.
const minFree = 16 << 20

// noSpace is the free space in bytes below which not even the log of a few fills finds room.
const noSpace = 1 << 20
