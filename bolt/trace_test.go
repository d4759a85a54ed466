package bolt

import (
	"sync/atomic"
	"testing"

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
