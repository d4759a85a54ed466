package bolt

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/brimgo/brim/internal/boltfile"
	"github.com/brimgo/brim/internal/journal"
	"github.com/brimgo/brim/store"
)

// Examine reads the file at path and its journal for the command "brim verify", and changes
// neither. The type of the report is internal: only this repository can use it, and it may change
// at any time.
func Examine(ctx context.Context, path string, lockTimeout time.Duration) (*boltfile.Report, error) {
	if err := orphaned(path); err != nil {
		return nil, store.Wrap(backend, "verify "+filepath.Base(path), err)
	}
	x, err := examine(ctx, path, lockTimeout)
	return &x.Report, store.Wrap(backend, "verify "+filepath.Base(path), err)
}

// examination is the content of a file and of its journal.
type examination struct {
	boltfile.Report
	mark    mark
	size    int64 // of the journal in bytes
	commits int   // in the journal that the file lacks
}

func examine(ctx context.Context, path string, lockTimeout time.Duration) (x examination, err error) {
	c := &census{layout: layoutOf(defaultName)}
	x.Census = &c.Census
	x.Damage, err = boltfile.Examine(ctx, path, lockTimeout, c)
	if err != nil || x.Damage != nil {
		return x, err
	}
	if x.mark, err = c.layout.decodeMark(c.mark); err != nil {
		return x, err
	}
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return x, boltfile.Unavailable(err.Error(), err)
	}
	x.Journal, err = x.readJournal(path + journalSuffix)
	return x, err
}

// readJournal counts the commits in a journal, and returns the damage to it.
func (x *examination) readJournal(path string) (damage string, err error) {
	log, err := journal.OpenToRead(path)
	if err == nil {
		defer func() { _ = log.Close() }()
		from := x.mark.Position
		switch own := log.ID() == x.mark.ID; {
		case own && !x.mark.inUse:
			return "", nil // the next Open removes it
		case !own && x.mark.inUse:
			return "is that of another file, and the one of this file is missing with the last changes", nil
		case !own:
			from = journal.Position{}
		}
		err = log.Replay(from, func([]byte) error { x.commits++; return nil })
	}
	switch {
	case errors.Is(err, fs.ErrNotExist) && x.mark.inUse:
		return "is missing, and the last changes with it", nil
	case errors.Is(err, fs.ErrNotExist):
		return "", nil
	case errors.Is(err, journal.ErrNewer):
		return "is newer than the file: it does not have the changes any more that the file lacks", nil
	case errors.Is(err, journal.ErrDamaged), errors.Is(err, journal.ErrNotRegular):
		return "cannot be read: " + err.Error(), nil
	case err != nil:
		return "", boltfile.Unavailable("its journal: "+err.Error(), err)
	case !x.mark.inUse && x.commits > 0:
		return "belongs to another file, or to a newer copy of this one", nil
	}
	info, err := os.Stat(path)
	if err == nil {
		x.size = info.Size()
	}
	return "", err
}
