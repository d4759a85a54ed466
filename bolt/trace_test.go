package bolt

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/brimgo/brim/store"
)

// TestTrace checks that every request is counted in one flush.
func TestTrace(t *testing.T) {
	var flushes, requests atomic.Int64
	s := openTemp(t, &Options{Trace: store.Trace{Flush: func(f store.Flush) {
		if f.Backend != "bolt" || f.Took <= 0 || f.Err != nil {
			t.Errorf("%+v", f)
		}
		flushes.Add(1)
		requests.Add(int64(f.Requests))
	}}})
	limit := store.Limit{Capacity: 1000, LeakRate: 1}
	for range 20 {
		if _, err := s.Fill(t.Context(), op(limit, "k", 1, store.IfFits)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if requests.Load() != 20 || flushes.Load() == 0 || flushes.Load() > 20 {
		t.Errorf("%d requests in %d flushes, want 20", requests.Load(), flushes.Load())
	}
}

// TestTraceOfPrune: the commit of a prune is a flush of one request, however many buckets it
// removes.
func TestTraceOfPrune(t *testing.T) {
	clock := newTestClock()
	var flushes []store.Flush
	s := openTemp(t, &Options{Clock: clock.Now, NoJournal: true, Trace: store.Trace{
		Flush: func(f store.Flush) { flushes = append(flushes, f) },
	}})
	for _, key := range []string{"a", "b"} {
		if _, err := s.Fill(t.Context(), op(store.Limit{Capacity: 10, LeakRate: 1}, key, 1, store.IfFits)); err != nil {
			t.Fatal(err)
		}
	}
	clock.Advance(time.Hour)
	n, err := s.Prune(t.Context())
	if err != nil || n != 2 {
		t.Fatalf("pruned %d, %v; want 2", n, err)
	}
	if err := s.Close(); err != nil { // waits for the last flush
		t.Fatal(err)
	}
	if f := flushes[len(flushes)-1]; len(flushes) != 3 || f.Backend != "bolt" || f.Requests != 1 || f.Err != nil {
		t.Errorf("%+v; want a flush of one request for each fill and one for the prune", flushes)
	}
}
