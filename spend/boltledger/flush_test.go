package boltledger

import (
	"errors"
	"path/filepath"
	"slices"
	"testing"

	"github.com/brimgo/brim/bolt"
	"github.com/brimgo/brim/internal/combine"
	"github.com/brimgo/brim/spend/internal/book"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/store"
)

// must ends the test if there is an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func openLedger(t *testing.T) *Ledger {
	t.Helper()
	s, err := bolt.Open(filepath.Join(t.TempDir(), "limits.db"), &bolt.Options{PruneEvery: -1})
	must(t, err)
	l, err := New(s, nil)
	must(t, err)
	t.Cleanup(func() {
		if err := errors.Join(l.Close(), s.Close()); err != nil {
			t.Error(err)
		}
	})
	return l
}

// TestFailedFlushAnswersAll: a job that fails has seen the changes of the jobs before it. If the
// changes do not last, its error is that of the flush: a hold that they captured still stands.
func TestFailedFlushAnswersAll(t *testing.T) {
	l := openLedger(t)
	own := errors.New("more than is held")
	run := func(err error) *ledger.Job {
		return &ledger.Job{Accounts: []string{"cards/a"}, Run: func(ledger.Snapshot) (*ledger.Changes, error) { return nil, err }}
	}
	for _, failed := range []error{nil, store.ErrMisconfigured} {
		batch := []*combine.Request[task, int64]{{In: task{job: run(nil)}}, {In: task{job: run(own)}}}
		want := own
		if failed != nil {
			want = failed
			l.db.File().Refuse("the disk failed")
		}
		must(t, l.db.Lock(t.Context()))
		l.flush(0, batch)
		l.db.Unlock()
		if !errors.Is(batch[0].Err, failed) || !errors.Is(explain("decide", batch[1].Err), want) {
			t.Errorf("after %v: %v and %v; want %v and %v", failed, batch[0].Err, batch[1].Err, failed, want)
		}
	}
}

// TestPruneLeavesNewRequests: between the two steps of a PruneRequests another one removes the old
// requests, and a new request takes one of their IDs.
func TestPruneLeavesNewRequests(t *testing.T) {
	ctx := t.Context()
	l := openLedger(t)
	record := func(id string, at int64) {
		t.Helper()
		err := l.Decide(ctx, &ledger.Job{Accounts: []string{"a"}, Requests: []string{id}, Run: func(ledger.Snapshot) (*ledger.Changes, error) {
			return &ledger.Changes{Requests: []ledger.Request{{ID: id, At: at, Accounts: []string{"a"}}}}, nil
		}})
		must(t, err)
	}
	for _, id := range []string{"again", "gone", "old"} {
		record(id, 1)
	}
	listed := [][]byte{[]byte("again"), []byte("gone"), []byte("old")}
	if n, err := l.PruneRequests(ctx, "", 5); n != 3 || err != nil {
		t.Fatalf("%d requests were removed, %v; want 3", n, err)
	}
	record("again", 5)
	record("old", 4)
	if n, err := l.combiner.Do(ctx, 0, task{ids: listed, before: 5, pace: new(book.Pace)}); n != 1 || err != nil {
		t.Errorf("%d requests were removed, %v; want 1", n, err)
	}
	var ids []string
	err := l.read(ctx, "read", func(b *buckets) error {
		for _, id := range listed {
			value, err := b.requests.get(id)
			if err != nil {
				return err
			}
			if value != nil {
				ids = append(ids, string(id))
			}
		}
		return nil
	})
	if err != nil || !slices.Equal(ids, []string{"again"}) {
		t.Errorf("%q are left, %v; want the new request", ids, err)
	}
}
