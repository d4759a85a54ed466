package brim_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/memory"
	"github.com/brimgo/brim/store"
)

// inMemory returns an empty memory store on the system's clock, which is the bubble's clock in
// a synctest bubble.
func inMemory(t *testing.T) store.Store {
	t.Helper()
	s := memory.New(nil)
	return s
}

// TestBurst sends 50 callers at once into a queue of 10 per second. Exactly the callers whose
// turn comes in time must wait. The others must be refused at once, by MaxWait as well as by
// their deadline.
func TestBurst(t *testing.T) {
	for _, test := range []struct {
		name              string
		maxWait, deadline time.Duration
		want              int
	}{
		{name: "MaxWait", maxWait: 500 * time.Millisecond, want: 6},
		{name: "deadline", deadline: 500 * time.Millisecond, want: 6},
		{name: "MaxWait before the deadline", maxWait: 500 * time.Millisecond, deadline: time.Hour, want: 6},
		{name: "deadline before MaxWait", maxWait: time.Hour, deadline: 500 * time.Millisecond, want: 6},
		{name: "between two turns", maxWait: 499 * time.Millisecond, want: 5},
		{name: "the capacity", want: 20},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := inMemory(t)
				sh := shaper(t, s, test.maxWait)
				bucket := brim.Smooth(10, 2*time.Second).For("k")
				began := time.Now()
				var mu sync.Mutex
				var waited []time.Duration
				refused := 0
				var wg sync.WaitGroup
				for range 50 {
					wg.Go(func() {
						ctx := t.Context()
						if test.deadline > 0 {
							var cancel func()
							ctx, cancel = context.WithTimeout(ctx, test.deadline)
							defer cancel()
						}
						st, err := sh.Wait(ctx, bucket, 1)
						refusal := givenUp(err)
						mu.Lock()
						defer mu.Unlock()
						took := time.Since(began)
						switch {
						case err == nil && st.Accepted:
							waited = append(waited, took)
						case took != 0 || refusal.RetryAfter <= 0:
							t.Errorf("%v after %v; want an OverLimitError at once, with a wait", err, took)
						default:
							refused++
						}
					})
				}
				wg.Wait()
				slices.Sort(waited)
				for i, took := range waited {
					if took != time.Duration(i)*100*time.Millisecond {
						t.Errorf("caller %d waited %v; want %d turns of 100 ms", i+1, took, i)
					}
				}
				if len(waited) != test.want || refused != 50-test.want {
					t.Errorf("%d callers waited and %d were refused; want %d of 50 to wait",
						len(waited), refused, test.want)
				}
			})
		})
	}
}
