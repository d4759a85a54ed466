package memory_test

import (
	"bytes"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/brimgo/brim/memory"
	"github.com/brimgo/brim/store"
)

// Callers read the clock before they wait for the lock, so most readings on a hot key are older
// than the record. If the store took such a reading for a clock that was set back, it would leak
// the same time again. The shortest MaxSkew makes every old reading look so.
func TestShortMaxSkew(t *testing.T) {
	epoch := time.Now()
	load := 150 * time.Millisecond
	if testing.Short() {
		load = 50 * time.Millisecond
	}
	now := func() time.Time { return epoch.Add(time.Since(epoch)) } // no step of the system's clock shows in it
	for _, c := range []struct {
		name  string
		clock func() time.Time
	}{
		{"own clock", nil},
		{"injected clock", now},
		{"injected clock with steps of 100 µs", func() time.Time { return now().Truncate(100 * time.Microsecond) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			var log bytes.Buffer
			s := memory.New(&memory.Options{
				Clock: c.clock, MaxSkew: 1, Logger: slog.New(slog.NewTextHandler(&log, nil)),
			})
			defer s.Close()
			hot := store.Limit{Capacity: 100, LeakRate: 1e6}.For("hot")
			var granted atomic.Int64
			start := time.Now()
			var wg sync.WaitGroup
			for range 16 {
				wg.Go(func() {
					for time.Since(start) < load {
						st, err := s.Fill(t.Context(), store.Op{Bucket: hot, Amount: 1})
						if err != nil {
							t.Error(err)
						}
						if st.Accepted {
							granted.Add(1)
						}
					}
				})
			}
			wg.Wait()
			took := time.Since(start) + 200*time.Microsecond // a step at the start and one at the end
			if most := hot.Capacity + hot.LeakRate*took.Seconds(); float64(granted.Load()) > most {
				t.Errorf("%d units went in within %v; the bucket has room for %.0f", granted.Load(), took, most)
			}
			if log.Len() > 0 {
				t.Errorf("the store did not believe a record that the same clock had dated: %s", &log)
			}
		})
	}
}
