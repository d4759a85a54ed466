package postgres

import (
	"testing"
	"time"

	"github.com/brimgo/brim/store"
)

// TestPruneAlone prunes beside another process that is at the table. Prune by hand goes on; the
// goroutine of Options.PruneEvery leaves the round to the other process, and the next one is its
// own.
func TestPruneAlone(t *testing.T) {
	now := time.Now()
	s, pool, _ := ownTable(t, Options{Clock: func() time.Time { return now }, PruneEvery: -1})
	fill := func() {
		t.Helper()
		op := store.Op{Bucket: store.Limit{Capacity: 1, LeakRate: 1}.For("empty"), Amount: 1}
		if st, err := s.Fill(t.Context(), op); err != nil || !st.Accepted {
			t.Fatal(st, err)
		}
		now = now.Add(time.Hour)
	}
	other, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Rollback(t.Context()) }()
	if _, err := other.Exec(t.Context(), "SELECT pg_advisory_xact_lock($1)", s.pruneLock()); err != nil {
		t.Fatal(err)
	}
	fill()
	if n, err := s.pruneAlone(t.Context()); n != 0 || err != nil {
		t.Errorf("beside another process: %d removed, %v; want none", n, err)
	}
	if n, err := s.Prune(t.Context()); n != 1 || err != nil {
		t.Errorf("by hand: %d removed, %v; want 1", n, err)
	}
	fill()
	if err := other.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []int64{1, 0} {
		if n, err := s.pruneAlone(t.Context()); n != want || err != nil {
			t.Errorf("alone: %d removed, %v; want %d", n, err, want)
		}
	}
}

// TestPruneEveryByDefault opens stores without options, and with the wish to prune by hand.
func TestPruneEveryByDefault(t *testing.T) {
	for every, want := range map[time.Duration]bool{0: true, time.Hour: true, -1: false, -time.Hour: false} {
		if s, _, _ := ownTable(t, Options{PruneEvery: every}); (s.pruner != nil) != want {
			t.Errorf("PruneEvery %v: a goroutine prunes: %v; want %v", every, !want, want)
		}
	}
}
