package bolt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/brimgo/brim/internal/seed"
	"github.com/brimgo/brim/store"
)

// backedUp writes a backup to a new file, and returns its path.
func backedUp(t testing.TB, backup func(context.Context, io.Writer) (int64, error)) string {
	t.Helper()
	var b bytes.Buffer
	n, err := backup(context.Background(), &b)
	if err != nil || n != int64(b.Len()) {
		t.Fatalf("%d bytes of %d, %v", n, b.Len(), err)
	}
	path := filepath.Join(t.TempDir(), "copy.db")
	must(t, os.WriteFile(path, b.Bytes(), 0o600))
	return path
}

// TestBackup: the copy is enough by itself, whatever of the store is not in its file yet.
func TestBackup(t *testing.T) {
	for name, o := range map[string]*Options{"journal": nil, "no journal": {NoJournal: true}} {
		t.Run(name, func(t *testing.T) {
			s := openTemp(t, o)
			fillMany(t, s, 0, 2000)
			fillup(t, s, "key 000007", 1)
			must(t, s.Delete(t.Context(), "key 000009"))
			journaled := o == nil
			path := backedUp(t, s.Backup)
			fillup(t, s, "key 000007", 1) // the store goes on
			names := []string{"limits.db"}
			if journaled {
				names = append(names, "limits.db.journal")
			}
			leftOver(t, filepath.Dir(s.db.File().Path()), names...)

			db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true})
			must(t, err)
			if err := db.View(func(tx *bbolt.Tx) error {
				if tx.Bucket([]byte("brim.meta")).Get(watermarkKey) != nil {
					t.Error("the copy refers to a journal")
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			must(t, db.Close())
			copied := openAt(t, path, nil)
			levelIs(t, copied, "key 000007", 8)
			levelIs(t, copied, "key 000009", 0)
			levelIs(t, copied, "key 001999", 1999)
			levelIs(t, s, "key 000007", 9)
			must(t, copied.Verify(t.Context()))
		})
	}
}

// TestBackupUnderLoad: no decision that was acknowledged before a backup is missing in it, and no
// transaction is torn, although the changes of a write are many commits.
func TestBackupUnderLoad(t *testing.T) {
	s := openTemp(t, &Options{logSegment: 64 << 10})
	var stop atomic.Bool
	var wg sync.WaitGroup
	var filled [4]atomic.Int64
	for c := range filled {
		wg.Go(func() {
			txn := store.Txn{
				op(steady, fmt.Sprintf("a%d", c), 1, store.Always),
				op(steady, fmt.Sprintf("z%d", c), 1, store.Always),
			}
			for !stop.Load() {
				if _, err := s.Apply(context.Background(), txn); err != nil {
					t.Error(err)
				}
				filled[c].Add(1)
			}
		})
	}
	many := seed.Attempts(6_000, 20_000)
	fillMany(t, s, 0, many)
	for range 2 {
		var before [len(filled)]int64
		for c := range filled {
			before[c] = filled[c].Load()
		}
		fillMany(t, s, 0, many)
		copied := openAt(t, backedUp(t, s.Backup), nil)
		for c, least := range before {
			states, err := copied.Read(t.Context(), store.Bucket{Key: fmt.Sprintf("a%d", c)}, store.Bucket{Key: fmt.Sprintf("z%d", c)})
			if err != nil || states[0].Level != states[1].Level || states[0].Level < float64(least) {
				t.Errorf("caller %d: %+v, %v; want two equal levels of at least %d", c, states, err, least)
			}
		}
		closeStore(t, copied)
	}
	stop.Store(true)
	wg.Wait()
}

// countdown is a context that ends after some looks at its Err.
type countdown struct {
	context.Context
	left int
}

func (c *countdown) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

// refuser takes some bytes and no more.
type refuser struct{ left int }

var errFull = errors.New("no more room")

func (r *refuser) Write(p []byte) (int, error) {
	if r.left -= len(p); r.left < 0 {
		return 0, errFull
	}
	return len(p), nil
}

// TestCalledOffVerify: Verify of an application's database ends when its context does.
func TestCalledOffVerify(t *testing.T) {
	s := newOver(t, openApp(t), nil)
	fillup(t, s, "k", 1)
	for looks, done := 0, false; !done; looks++ {
		err := s.Verify(&countdown{t.Context(), looks})
		if done = err == nil; !done {
			failsWith(t, err, context.Canceled, "bolt: verify: ")
		}
	}
}

// TestBackupThatFails: a backup that fails or is called off leaves no file behind, and the store
// goes on.
func TestBackupThatFails(t *testing.T) {
	s := openTemp(t, nil)
	fillMany(t, s, 0, 2000)
	fillup(t, s, "k", 1)
	_, err := s.Backup(t.Context(), &refuser{left: 100})
	failsWith(t, err, errFull)
	for looks, done := 0, false; !done; looks++ {
		_, err = s.Backup(&countdown{t.Context(), looks}, &bytes.Buffer{})
		if done = err == nil; !done {
			failsWith(t, err, context.Canceled)
		}
		leftOver(t, filepath.Dir(s.db.File().Path()), "limits.db", "limits.db.journal")
	}
	levelIs(t, openAt(t, backedUp(t, s.Backup), nil), "k", 1)
}
