package history

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/bbolt"

	"github.com/brimgo/brim/bolt"
	"github.com/brimgo/brim/internal/kv"
	"github.com/brimgo/brim/internal/vfs"
	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/boltledger"
)

// Subject is a kind of store that keeps a history.
type Subject string

// The subjects.
const (
	Bolt   Subject = "bolt"                   // a store with a journal
	Direct Subject = "bolt without a journal" // a store that writes to the file at once
	Lazy   Subject = "bolt with SyncEvery"    // a store with a journal that is synced at intervals
	Joined Subject = "bolt.New"               // a store in a database of an application
	Ledger Subject = "boltledger"             // a store with a journal, and a ledger in its file

	SQLite       Subject = "sqlite"                         // a store in a database in WAL mode
	Rollback     Subject = "sqlite with a rollback journal" // a store in a database in mode DELETE
	SQLiteLedger Subject = "sqliteledger"                   // a store in WAL mode, and a ledger in its database
	Unforced     Subject = "sqlite without syncs"           // a store in WAL mode, with Relaxed and synchronous OFF
)

// Subjects lists all sound subjects over bolt.
var Subjects = [...]Subject{Bolt, Direct, Lazy, Joined, Ledger}

// spends reports whether a subject has a ledger.
func (s Subject) spends() bool { return s == Ledger || s == SQLiteLedger }

// Segments lists sizes of a segment of the journal. A change of many buckets does not fit in the
// smallest, and a history of some calls fills all but the largest.
var Segments = [...]int64{4 << 10, 8 << 10, 16 << 10, 64 << 10}

// Path returns the path of the file in a directory.
func Path(dir string) string { return filepath.Join(dir, "limits.db") }

// opened is a subject whose file is open.
type opened struct {
	s       Backend
	budgets *spend.Budgets // of a Ledger
	end     []func() error
}

// close closes everything, the last first.
func (o *opened) close() error {
	if o == nil {
		return nil
	}
	var errs []error
	for i := len(o.end) - 1; i >= 0; i-- {
		errs = append(errs, o.end[i]())
	}
	return errors.Join(errs...)
}

// open opens the file in a directory. A journal that the store makes has segments of that size. The
// journal of a [Lazy] store is synced only when a history says so.
func open(ctx context.Context, dir string, subject Subject, segment int64, clock func() time.Time) (*opened, error) {
	kv.DefaultSegment = cmp.Or(segment, Segments[0])
	o := &opened{}
	if err := o.open(ctx, dir, subject, clock); err != nil {
		return nil, errors.Join(err, o.close())
	}
	return o, nil
}

func (o *opened) open(ctx context.Context, dir string, subject Subject, clock func() time.Time) error {
	if subject.OverSQLite() {
		return o.openSQLite(ctx, dir, subject, clock)
	}
	options := &bolt.Options{Clock: clock, LockTimeout: -1, NoJournal: subject == Direct}
	if subject == Lazy {
		options.SyncEvery = time.Hour
	}
	s, err := o.openStore(dir, subject, options)
	if err != nil {
		return err
	}
	o.s, o.end = s, append(o.end, s.Close)
	if subject != Ledger {
		return nil
	}
	l, err := boltledger.New(s, &boltledger.Options{Clock: clock})
	if err != nil {
		return err
	}
	o.end = append(o.end, l.Close)
	o.budgets, err = spend.New(ctx, l, budget, nil)
	return err
}

func (o *opened) openStore(dir string, subject Subject, options *bolt.Options) (*bolt.Store, error) {
	if subject != Joined {
		return bolt.Open(Path(dir), options)
	}
	db, err := openApplication(dir)
	if err != nil {
		return nil, err
	}
	o.end = append(o.end, db.Close)
	return bolt.New(db, options)
}

// openApplication opens a database as a careful application does: the file is made whole under
// another name, and its own name lasts.
func openApplication(dir string) (*bbolt.DB, error) {
	path := Path(dir)
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		begun := path + ".begun"
		if err := vfs.Default.Remove(begun); err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
		db, err := openBolt(begun)
		if err != nil {
			return nil, err
		}
		if err := errors.Join(db.Close(), vfs.Default.Rename(begun, path)); err != nil {
			return nil, err
		}
	}
	if err := vfs.Default.SyncDir(dir); err != nil {
		return nil, err
	}
	return openBolt(path)
}

func openBolt(path string) (*bbolt.DB, error) {
	file, err := vfs.Default.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{
		Timeout: time.Second, NoStatistics: true,
		OpenFile: func(string, int, os.FileMode) (*os.File, error) { return file.Handle(), nil },
	})
	if err == nil {
		vfs.Default.Attach(file, db)
	}
	return db, err
}
