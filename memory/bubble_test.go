package memory_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/brimgo/brim/memory"
	"github.com/brimgo/brim/store"
)

// TestBubble sleeps in a bubble of testing/synctest. Buckets leak by its time, also in a store that
// was made outside and has been filled there.
func TestBubble(t *testing.T) {
	b := store.Limit{Capacity: 10, LeakRate: 1}.For("k")
	level := func(t *testing.T, s store.Store, n float64) float64 {
		t.Helper()
		st, err := s.Fill(t.Context(), store.Op{Bucket: b, Amount: n})
		if err != nil {
			t.Fatal(err)
		}
		return st.Level
	}
	outside := memory.New(nil)
	level(t, outside, 5)
	synctest.Test(t, func(t *testing.T) {
		inside := memory.New(nil)
		level(t, inside, 5)
		for name, s := range map[string]store.Store{"outside": outside, "inside": inside} {
			first := level(t, s, 3)
			time.Sleep(2 * time.Second)
			if got := level(t, s, 1); got != first-1 {
				t.Errorf("made %s: level %v after %v, two seconds and a unit; want %v", name, got, first, first-1)
			}
		}
	})
}
