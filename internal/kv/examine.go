package kv

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/brimgo/brim/internal/boltfile"
	"github.com/brimgo/brim/internal/vfs"
	"github.com/brimgo/brim/store"
)

// Examination is the content of a file and of its log.
type Examination struct {
	boltfile.Report
	NeedsLog bool   // the file alone is not enough
	LogSize  int64  // in bytes
	Commits  int    // in the log that the file lacks
	First    uint64 // the number of the first of them
	Changed  int    // values that these commits write or delete
}

// DefaultTable is the name of the first table of a file of which the engine is the only user.
const DefaultTable = "brim"

// Examine reads the file at path and its log, and changes neither. Its first table is
// [DefaultTable]; see [Options] for isRecord. If the file is open elsewhere, the error is one of
// [boltfile.Locked].
func Examine(
	ctx context.Context, path string, lockTimeout time.Duration, isRecord func(value []byte) bool,
) (x Examination, err error) {
	if err := orphaned(path); err != nil {
		return x, err
	}
	c := &fileCheck{firstTable: firstTable{boltfile.NewTable(DefaultTable)}}
	x.Verifier = &c.Verifier
	x.Damage, err = boltfile.Examine(ctx, path, lockTimeout, c)
	if err != nil || x.Damage != nil {
		return x, err
	}
	m, err := decodeWatermark(c.firstTable.table, c.watermark)
	if err != nil {
		return x, err
	}
	x.NeedsLog, x.First = m.inUse, m.number
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return x, boltfile.Failed(err.Error(), err)
	}
	x.Journal, err = x.readLog(path+LogSuffix, m, isRecord)
	return x, err
}

// readLog counts the commits in a log, and returns the damage to it.
func (x *Examination) readLog(path string, m watermark, isRecord func([]byte) bool) (damage string, err error) {
	known := x.Values()
	changed := make(map[[2]string]struct{})
	put := func(table, key string, value []byte) error {
		changed[[2]string{table, key}] = struct{}{}
		if _, ok := known[table]; !ok {
			return unknownTable(table)
		}
		return checkRecord(isRecord, table == DefaultTable, value)
	}
	log, err := openLog(vfs.OS{}, path, true)
	if err == nil {
		defer func() { _ = log.close() }()
		from := m.position
		switch own := log.id == m.id; {
		case own && !m.inUse:
			return "", nil // the next Open removes it
		case !own && m.inUse:
			return "is that of another file, and the one of this file is missing with the last changes", nil
		case !own:
			from = position{}
		}
		err = log.replay(from, func(body []byte) (err error) {
			if x.Commits++; m.inUse {
				_, err = readChanges(body, put)
			}
			return err
		})
		x.Changed = len(changed)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist) && m.inUse:
		return "is missing, and the last changes with it", nil
	case errors.Is(err, fs.ErrNotExist):
		return "", nil
	case errors.Is(err, errNewer):
		return "is newer than the file: it does not have the changes any more that the file lacks", nil
	case errors.Is(err, errOld):
		return "is that of an earlier version of brim: open the file with that version and close it", nil
	case errors.Is(err, errLogDamaged), errors.Is(err, errNotRegular), errors.Is(err, store.ErrCorrupt):
		return "cannot be read: " + err.Error(), nil
	case err != nil:
		return "", boltfile.Failed("its journal: "+err.Error(), err)
	case !m.inUse && x.Commits > 0:
		return "belongs to another file, or to a newer copy of this one", nil
	}
	info, err := os.Stat(path)
	if err == nil {
		x.LogSize = info.Size()
	}
	return "", err
}
