package memory_test

import (
	"testing"
	"time"

	"github.com/brimgo/brim/memory"
	"github.com/brimgo/brim/store"
)

// A caller stands still for longer than MaxSkew between its reading of the clock and the lock,
// while another fills the bucket. Its old reading must not set the bucket's time back, or the same
// interval leaks twice.
func TestCallerStandsStill(t *testing.T) {
	const stall = store.DefaultMaxSkew + time.Second
	b := store.Limit{Capacity: 10, LeakRate: 1}.For("b")
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	var s store.Store
	fill := func() bool {
		t.Helper()
		st, err := s.Fill(t.Context(), store.Op{Bucket: b, Amount: 10})
		must(t, err)
		return st.Accepted
	}
	stalls := false
	s = memory.New(&memory.Options{Clock: func() time.Time {
		reading := now
		if stalls {
			stalls = false
			now = now.Add(stall)
			if !fill() {
				t.Error("the bucket is empty by now, and refused the other caller")
			}
		}
		return reading
	}})
	defer s.Close()
	if !fill() {
		t.Error("an empty bucket refused the first caller")
	}
	stalls = true
	for _, caller := range []string{"the caller that stood still", "a third caller"} {
		if fill() {
			t.Errorf("%s was admitted to a full bucket", caller)
		}
	}
}
