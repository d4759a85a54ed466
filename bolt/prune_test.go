package bolt

import (
	"bytes"
	"context"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"testing"
	"time"

	"github.com/brimgo/brim/internal/paging"
	"github.com/brimgo/brim/internal/records"
	"github.com/brimgo/brim/store"
)

// TestPruneLetsOthersIn: a large prune goes in batches, and other callers are served between
// them.
func TestPruneLetsOthersIn(t *testing.T) {
	clock := newTestClock()
	s := openTemp(t, &Options{Clock: clock.Now})
	ctx := context.Background()
	const buckets = 12_000
	var txns []store.Txn
	for i := range buckets {
		limit := store.Limit{Capacity: 10, LeakRate: 1}
		if i%100 == 0 {
			limit.LeakRate = 0 // never expires
		}
		txns = append(txns, store.Txn{op(limit, fmt.Sprintf("key %d", i), 1, store.IfFits)})
	}
	mustApply(t, s, txns...)
	clock.Advance(time.Hour)
	var pruned atomic.Bool
	filled := 0
	done := make(chan struct{})
	go func() {
		defer close(done)
		for !pruned.Load() {
			fillup(t, s, "live", 1)
			filled++
		}
	}()
	n, err := s.Prune(ctx)
	pruned.Store(true)
	<-done
	if err != nil || n != buckets-buckets/100 {
		t.Errorf("pruned %d, %v; want %d", n, err, buckets-buckets/100)
	}
	if filled < 5 {
		t.Errorf("a caller was served %d times during %d batches", filled, buckets/records.PruneBatch)
	}
	levelIs(t, s, "live", float64(filled))
	must(t, s.Verify(ctx))
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	_, err = s.Prune(cancelled)
	failsWith(t, err, context.Canceled, "bolt: prune: ")
}

// fillLeaky fills n buckets, which expire after a second if they leak.
func fillLeaky(t *testing.T, s store.Store, n int, leakRate float64) {
	t.Helper()
	txns := make([]store.Txn, n)
	for i := range txns {
		txns[i] = store.Txn{op(store.Limit{Capacity: 1, LeakRate: leakRate}, fmt.Sprintf("key %05d", i), 1, store.IfFits)}
	}
	mustApply(t, s, txns...)
}

// ended waits for the end of the flush, which comes after the answers to its callers.
func ended(t *testing.T, s *Store) {
	t.Helper()
	holdUp(t, s)()
}

// TestPruneInPieces: Prune goes in pieces, so that no read transaction and no commit takes long. A
// Prune that finds nothing waits for no commit. The clock is read once in each transaction.
func TestPruneInPieces(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name           string
		buckets        int
		leakRate       float64
		reads, commits int
	}{
		{"no bucket", 0, 1, 1, 0},
		{"nothing expires", 10, 0, 1, 0},
		{"one piece of live buckets", pruneScan, 0, 1, 0},
		{"one live bucket more", pruneScan + 1, 0, 2, 0},
		{"two pieces of live buckets", 2 * pruneScan, 0, 2, 0},
		{"a thousand expired buckets", 1_000, 1, 1, 1},
		{"one expired bucket more", 1_001, 1, 2, 2},
		{"three pieces of expired buckets", 3_000, 1, 3, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			clock, readings := newTestClock(), 0
			var commits atomic.Int64
			s := openTemp(t, &Options{
				Clock:     func() time.Time { readings++; return clock.Now() },
				Trace:     store.Trace{Flush: func(store.Flush) { commits.Add(1) }},
				NoJournal: true,
			})
			if c.buckets > 0 {
				fillLeaky(t, s, c.buckets, c.leakRate)
			}
			clock.Advance(time.Hour)
			ended(t, s)
			readings = 0
			commits.Store(0)
			n, err := s.Prune(context.Background())
			if want := int64(float64(c.buckets) * c.leakRate); n != want || err != nil {
				t.Errorf("pruned %d, %v; want %d", n, err, want)
			}
			ended(t, s)
			// A commit reads the clock to decide.
			if reads := readings - c.commits; reads != c.reads {
				t.Errorf("%d read transactions, want %d", reads, c.reads)
			}
			if got := int(commits.Load()); got != c.commits {
				t.Errorf("%d commits, want %d", got, c.commits)
			}
		})
	}
}

// TestPruneEndsHalfway: a Prune whose context ends returns the number of buckets that it has
// removed.
func TestPruneEndsHalfway(t *testing.T) {
	clock := newTestClock()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	searches := 0
	s := openTemp(t, &Options{Clock: func() time.Time {
		if bytes.Contains(debug.Stack(), []byte(").Prune.func1")) {
			if searches++; searches == 2 { // before the removal of the second piece
				cancel()
			}
		}
		return clock.Now()
	}, NoJournal: true})
	fillLeaky(t, s, 2*records.PruneBatch, 1)
	ended(t, s)
	clock.Advance(time.Hour)
	n, err := s.Prune(ctx)
	failsWith(t, err, context.Canceled, "bolt: prune: ")
	entries, err := paging.All(t.Context(), s, "")
	must(t, err)
	if n != records.PruneBatch || len(entries) != records.PruneBatch {
		t.Errorf("pruned %d, and %d are left; want %d and %d", n, len(entries), records.PruneBatch, records.PruneBatch)
	}
}

// TestPruneLooksAgain: between the search for expired buckets and their removal, another caller may
// use one of them, or remove it. Prune then leaves it alone and does not count it.
func TestPruneLooksAgain(t *testing.T) {
	leaky := store.Limit{Capacity: 1, LeakRate: 1}
	for _, c := range []struct {
		name      string
		meanwhile func(t *testing.T, s *Store)
		pruned    int64
		left      float64
	}{
		{"nothing happens", func(*testing.T, *Store) {}, 1, 0},
		{"a fill", func(t *testing.T, s *Store) {
			if st, err := s.Fill(t.Context(), op(leaky, "k", 0.5, store.IfFits)); err != nil || !st.Accepted {
				t.Error(st, err)
			}
		}, 0, 0.5},
		{"a delete", func(t *testing.T, s *Store) {
			if err := s.Delete(t.Context(), "k"); err != nil {
				t.Error(err)
			}
		}, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			clock := newTestClock()
			var meanwhile func()
			s := openTemp(t, &Options{Clock: func() time.Time {
				if f := meanwhile; f != nil { // Prune has begun to read
					meanwhile = nil
					f()
				}
				return clock.Now()
			}, NoJournal: true})
			// A commit that made the file grow would wait for the end of the search.
			fillLeaky(t, s, 1000, 1)
			clock.Advance(time.Hour)
			if n, err := s.Prune(t.Context()); n != 1000 || err != nil {
				t.Fatalf("pruned %d, %v; want 1000", n, err)
			}
			mustFill(t, s, op(leaky, "k", 1, store.IfFits))
			clock.Advance(time.Hour)
			meanwhile = func() { c.meanwhile(t, s) }
			if n, err := s.Prune(t.Context()); n != c.pruned || err != nil {
				t.Errorf("pruned %d, %v; want %d", n, err, c.pruned)
			}
			levelIs(t, s, "k", c.left)
		})
	}
}
