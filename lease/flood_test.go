package lease_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/brimgo/brim/lease"
	"github.com/brimgo/brim/store"
)

// TestFlood has more busy buckets than the store has accounts. One bucket is asked more often
// than all others.
func TestFlood(t *testing.T) {
	clock := newManual()
	s := wrap(t, inMemory(t, clock.now), &lease.Options{Clock: clock.now, Ahead: 100 * time.Millisecond, MaxBuckets: 256})
	limit := store.Limit{Capacity: 1e6, LeakRate: 1e6}
	ask := func(key string) (st store.State) {
		t.Helper()
		clock.step(time.Microsecond)
		st, err := s.Fill(t.Context(), store.Op{Bucket: limit.For(key), Amount: 1})
		if err != nil {
			t.Fatal(err)
		}
		return st
	}
	const calls, others = 100_000, 2000
	served := 0
	for i := range calls {
		if ask("hot").Estimate {
			served++
		}
		ask(fmt.Sprintf("other %d", i%others))
	}
	if n := lease.Accounts(s); n > 256 {
		t.Errorf("%d buckets have accounts, want 256 at most", n)
	}
	t.Logf("%d of %d calls served from allotments", served, calls)
	if served < calls/2 {
		t.Errorf("%d of %d calls on the hottest bucket were served from allotments, want half at least\n"+
			"why: an account that newcomers push out at once never measures its bucket's demand, "+
			"and no bucket gets an allotment", served, calls)
	}
}
