package bolt

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	"go.etcd.io/bbolt"

	"github.com/brimgo/brim/internal/boltfile"
	"github.com/brimgo/brim/internal/journal"
	"github.com/brimgo/brim/internal/memtable"
	"github.com/brimgo/brim/store"
)

// beside is the readable part of the journal of a file that may be damaged.
type beside struct {
	mark     mark
	size     int64
	end      journal.Position
	commits  int                 // in the journal that the file does not have
	newest   map[string]renewed  // by key
	tables   []*memtable.Changes // in order
	highest  int64               // time of a flush
	findings []boltfile.Finding
	behind   bool // changes that the file needs may be missing
}

// renewed is the state of a bucket in the journal.
type renewed struct {
	rec     store.Record
	present bool
	body    int // the number of the body that has it
}

// Survey reads the journal, and returns the damage to it.
func (s *salvor) Survey(r *boltfile.Remains) ([]boltfile.Finding, error) {
	if s.from != r {
		b, err := readBeside(r)
		if err != nil {
			return nil, err
		}
		s.from, s.beside = r, b
	}
	return s.findings, nil
}

// SalvageTables returns the changes of tables that the journal of a file has, in order, for
// packages of this repository that keep tables beside the buckets. whole tells that no change is
// missing. Its types are internal: only this repository can use it, and it may change at any time.
func SalvageTables(r *boltfile.Remains) (changes []*memtable.Changes, whole bool, err error) {
	b, err := readBeside(r)
	return b.tables, !b.behind, err
}

// readBeside reads the journal of a file without changing either.
func readBeside(r *boltfile.Remains) (b beside, err error) {
	if body := r.Mark(boltfile.NewTable(defaultName), markKey); body != nil {
		b.mark, _ = decodeMark(body)
	}
	var id journal.ID
	var from journal.Position
	if b.mark.inUse {
		id, from = b.mark.ID, b.mark.Position
	}
	j, err := journal.ReadRemains(r.Path()+journalSuffix, id, from)
	switch {
	case errors.Is(err, fs.ErrNotExist) && b.mark.inUse:
		b.find("is missing, and the last changes of buckets with it")
		b.behind = true
		return b, nil
	case errors.Is(err, fs.ErrNotExist):
		return b, nil
	case errors.Is(err, journal.ErrForeign):
		b.find("is that of another file, and the one of this file is missing with the last changes of buckets")
		b.behind = true
		return b, nil
	case errors.Is(err, errors.ErrUnsupported):
		b.find("was written by a newer version of brim, which must be used to read it")
		b.behind = true
		return b, nil
	case err != nil:
		return b, boltfile.Unavailable(fmt.Sprintf("its journal: %v", err), err)
	}
	b.size, b.end = j.Size, j.End
	if b.mark.inUse {
		b.take(j)
		b.behind = len(b.findings) > 0
		return b, nil
	}
	for _, damage := range j.Damage {
		b.find(damage + "; the file does not need it")
	}
	if j.ID != b.mark.ID && len(j.Bodies) > 0 {
		b.find("belongs to another file, or to a newer copy of this one; nothing of it is carried over")
	}
	// Damage may hide that the file needs the journal that is beside it.
	b.behind = j.ID != b.mark.ID && len(j.Bodies)+len(j.Damage) > 0
	return b, nil
}

func (b *beside) find(problem string) {
	b.findings = append(b.findings, boltfile.Finding{What: boltfile.Journal, Problem: problem})
}

// take takes the changes in the journal.
func (b *beside) take(j *journal.Remains) {
	b.commits = len(j.Bodies)
	b.newest = make(map[string]renewed)
	for i, body := range j.Bodies {
		if body, ok := tablesOf(body); ok {
			if c, err := memtable.Read(body); err == nil {
				b.tables = append(b.tables, c)
			} else {
				b.find("holds a change of a ledger that cannot be read")
			}
			continue
		}
		at, err := readChanges(body, func(key string, rec *store.Record, present bool) {
			b.newest[key] = renewed{*rec, present, i}
		})
		if b.highest = max(b.highest, at); err != nil {
			b.find("holds a change that cannot be read, and those behind it in the same commit are lost")
		}
	}
	for _, damage := range j.Damage {
		b.find(damage)
	}
	if j.Newer {
		b.find("is newer than the file: changes that the file lacks are not in it any more")
	}
	if j.Gap {
		b.doubt(j)
	}
}

// doubt tells of the buckets whose newest change may be lost: all but those that have changed after
// the last commit that is missing.
func (b *beside) doubt(j *journal.Remains) {
	current := 0
	for _, c := range b.newest {
		if c.body >= j.Current {
			current++
		}
	}
	b.find(fmt.Sprintf("may have had the newest change of any bucket in the part that is missing; "+
		"only the %d buckets that changed after it are known to be current", current))
	torn := make(map[string]bool)
	for _, body := range j.Torn {
		if _, ok := tablesOf(body); ok {
			continue
		}
		// Damage may be anywhere, in a key as well.
		_, _ = readChanges(body, func(key string, _ *store.Record, _ bool) {
			if c, ok := b.newest[key]; store.ValidateKey(key) == nil && (!ok || c.body < j.Current) {
				torn[key] = true
			}
		})
	}
	for _, key := range slices.Sorted(maps.Keys(torn)) {
		b.findings = append(b.findings, boltfile.Finding{
			What: "bucket", Key: key, Doubtful: true, Problem: "may have lost its newest change with a damaged part of the journal",
		})
	}
}

// Complete carries the changes in the journal over the records of the file. It does not carry over
// the journal's mark: the new file needs none.
func (s *salvor) Complete(
	tx *bbolt.Tx, _ []*boltfile.Table, r *boltfile.Remains, _ []boltfile.Finding,
) ([]boltfile.Finding, error) {
	if _, err := s.Survey(r); err != nil || len(s.newest) == 0 {
		return nil, err
	}
	l := layoutOf(defaultName)
	records, meta, totals, err := l.open(tx)
	if err != nil {
		return nil, err
	}
	for _, key := range slices.Sorted(maps.Keys(s.newest)) {
		if c := s.newest[key]; c.present {
			value := new([recordSize]byte) // bbolt refers to it until the commit
			l.encodeRecord(value, []byte(key), &c.rec)
			err = records.Put([]byte(key), value[:])
		} else {
			err = records.Delete([]byte(key))
		}
		if err != nil {
			return nil, err
		}
	}
	totals.Time = s.highest
	return nil, l.table.PutTotals(meta, new([boltfile.TotalsSize]byte), &totals)
}
