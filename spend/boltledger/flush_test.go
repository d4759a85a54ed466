package boltledger

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/brimgo/brim/bolt"
	"github.com/brimgo/brim/internal/memtable"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/store"
)

// lasting is tables whose changes do not last.
type lasting struct {
	memtable.Writer
	err error
}

func (l *lasting) Update(fn func(*memtable.View) error) error {
	return l.Writer.Update(func(v *memtable.View) error {
		if err := fn(v); err != nil {
			return err
		}
		return l.err
	})
}

// TestFailedFlushAnswersAll: a job that fails has seen the changes of the jobs before it. If the
// changes do not last, its error is that of the flush: a hold that they captured still stands.
func TestFailedFlushAnswersAll(t *testing.T) {
	s, err := bolt.Open(filepath.Join(t.TempDir(), "limits.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	l, err := New(s, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	own := errors.New("more than is held")
	run := func(err error) *ledger.Job {
		return &ledger.Job{Accounts: []string{"cards/a"}, Run: func(ledger.Snapshot) (*ledger.Changes, error) { return nil, err }}
	}
	for _, failed := range []error{nil, store.ErrUnavailable, store.ErrUnknownOutcome} {
		batch := []*request{{In: run(nil)}, {In: run(own)}}
		usual := l.tables
		if failed != nil {
			l.tables = &lasting{usual, failed}
		}
		if err := l.tables.Lock(t.Context()); err != nil {
			t.Fatal(err)
		}
		l.flush(0, batch)
		l.tables.Unlock()
		l.tables = usual
		want := failed
		if failed == nil {
			want = own
		}
		if !errors.Is(batch[0].Err, failed) || !errors.Is(explain("decide", batch[1].Err), want) {
			t.Errorf("after %v: %v and %v; want %v and %v", failed, batch[0].Err, batch[1].Err, failed, want)
		}
	}
}
