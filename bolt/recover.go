package bolt

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"go.etcd.io/bbolt"

	"github.com/brimgo/brim/internal/boltfile"
	"github.com/brimgo/brim/internal/journal"
	"github.com/brimgo/brim/store"
)

// journalSuffix makes the path of the journal from the path of the file.
const journalSuffix = ".journal"

// orphaned returns an error if there is a journal at path but no file. A new file in its place
// would be empty.
func orphaned(path string) error {
	if _, err := os.Lstat(path + journalSuffix); err != nil {
		return nil // Open finds out why the directory cannot be read
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	name := filepath.Base(path) + journalSuffix
	return boltfile.Unavailable(fmt.Sprintf("the file is missing, but its journal %s is there; put the file back beside it, "+
		"or move the journal away to begin with no buckets", name), fs.ErrNotExist)
}

// recover brings the store to the state that the journal has, and its clock to the highest time in
// the file, which is highest, and in the journal. Without keep, the file has that state, too, and
// the journal is gone.
func (s *Store) recover(keep bool, highest int64) error {
	l := newLogged(s, s.file.Path()+journalSuffix)
	var m mark
	err := s.file.View(func(tx *bbolt.Tx) error {
		_, meta, err := s.layout.table.Find(tx)
		if err == nil && meta != nil {
			m, err = s.layout.readMark(meta)
		}
		return err
	})
	if err != nil {
		return err
	}
	if !s.file.Owned() {
		if m.inUse {
			return boltfile.Unavailable("the buckets have changes in a journal; open the file with Open and close it, "+
				"which writes them to the file", nil)
		}
		s.resume(highest)
		return nil
	}
	log, err := journal.Open(l.path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && m.inUse:
		return boltfile.Unavailable(fmt.Sprintf("its journal %s is missing, which has the last changes; put it back beside the file",
			filepath.Base(l.path)), err)
	case errors.Is(err, fs.ErrNotExist):
		err = nil
	case err != nil:
		return l.explain(err)
	case !m.inUse:
		err = l.discard(log, m)
	default:
		var last int64
		last, err = l.replay(log, m)
		highest = max(highest, last)
	}
	if err != nil {
		return err
	}
	s.resume(highest) // before finish, which writes the time of the clock to the file
	switch {
	case keep:
		s.logged = l
	case l.log != nil:
		if err = l.finish(); err == nil {
			return l.log.Remove()
		}
		_ = l.log.Close()
	}
	return err
}

// discard removes a journal that the file does not need. A process may have ended between the
// commit that says so and the removal, or between the making of a journal and the commit that
// refers to it. Any other journal has changes that nobody may drop.
func (l *logged) discard(log *journal.Journal, m mark) error {
	if log.ID() != m.ID {
		err := log.Replay(journal.Position{}, func([]byte) error { return nil })
		if err != nil || log.End() != log.Released() {
			_ = log.Close()
			return boltfile.Unavailable(fmt.Sprintf("the journal %s beside it belongs to another file, or to a newer copy of this one; "+
				"put that file back, or move the journal away to go on without its changes", filepath.Base(l.path)), err)
		}
	}
	return log.Remove()
}

// replay reads the journal into memory.
func (l *logged) replay(log *journal.Journal, m mark) (highest int64, err error) {
	defer func() {
		if err != nil {
			_ = log.Close()
		}
	}()
	if log.ID() != m.ID {
		return 0, boltfile.Unavailable(fmt.Sprintf("the journal %s is that of another file; put back the journal that was beside this file",
			filepath.Base(l.path)), nil)
	}
	highest = noTime
	frames := 0
	mem := restorer{resident: l.mem}
	err = log.Replay(m.Position, func(body []byte) error {
		frames++
		if body, ok := tablesOf(body); ok {
			return l.tables.Restore(body)
		}
		at, err := readChanges(body, mem.restore)
		highest = max(highest, at)
		return err
	})
	if err != nil {
		return 0, l.explain(err)
	}
	if frames > 0 {
		l.s.options.Logger.Info("bolt: the journal was replayed", "commits", frames)
	}
	l.log, l.began = log, true
	id := log.ID()
	l.id.Store(&id)
	l.mem.logged = log.End()
	return highest, nil
}

// restorer takes changes from the journal into memory. The store is not in use yet. It makes many
// buckets at once, which is several times as fast as one by one.
type restorer struct {
	*resident
	slab []cached
}

const slabSize = 256

func (r *restorer) restore(key string, rec *store.Record, present bool) {
	p := r.section(key)
	c := p.buckets[key]
	if c == nil {
		if len(r.slab) == 0 {
			r.slab = make([]cached, slabSize)
		}
		c, r.slab = &r.slab[0], r.slab[1:]
		c.key = key
		p.buckets[key] = c
		r.count.Add(1)
	}
	c.rec, c.present = *rec, present
	p.change(c)
}

// explain returns an error of the journal with the remedy.
func (l *logged) explain(err error) error {
	name := filepath.Base(l.path)
	switch {
	case errors.Is(err, store.ErrCorrupt), errors.Is(err, errors.ErrUnsupported):
		return err
	case errors.Is(err, journal.ErrNewer):
		return boltfile.Unavailable(fmt.Sprintf("the file is older than its journal %s; put the newest file back, "+
			"or move the journal away to go on with the old one", name), err)
	case errors.Is(err, journal.ErrNotRegular):
		return boltfile.Unavailable(fmt.Sprintf("its journal %s: %v; put the journal itself beside the file, or move away what stands there",
			name, err), err)
	case errors.Is(err, journal.ErrDamaged):
		return boltfile.Damagef("its journal %s: %v", name, err)
	}
	return boltfile.Unavailable(fmt.Sprintf("its journal %s: %v", name, err), err)
}
