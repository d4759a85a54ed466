package bolt

import (
	"testing"
	"time"

	"github.com/brimgo/brim/store"
)

// TestTrace: every request is counted in one flush. The commit of a prune is a flush of one
// request, however many buckets it removes.
func TestTrace(t *testing.T) {
	clock := newTestClock()
	var flushes []store.Flush
	s := openTemp(t, &Options{Clock: clock.Now, NoJournal: true, Trace: store.Trace{
		Flush: func(f store.Flush) { flushes = append(flushes, f) },
	}})
	for _, key := range []string{"a", "b"} {
		mustFill(t, s, op(store.Limit{Capacity: 10, LeakRate: 1}, key, 1, store.IfFits))
	}
	clock.Advance(time.Hour)
	n, err := s.Prune(t.Context())
	if err != nil || n != 2 {
		t.Fatalf("pruned %d, %v; want 2", n, err)
	}
	if err := s.Close(); err != nil { // waits for the last flush
		t.Fatal(err)
	}
	for _, f := range flushes {
		if len(flushes) != 3 || f.Backend != "bolt" || f.Requests != 1 || f.Took <= 0 || f.Err != nil {
			t.Errorf("%+v of %d; want a flush of one request for each fill and one for the prune", f, len(flushes))
		}
	}
}
