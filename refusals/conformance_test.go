package refusals_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/brimgo/brim/internal/redistest"
	"github.com/brimgo/brim/internal/redistest/buckets"
	"github.com/brimgo/brim/memory"
	"github.com/brimgo/brim/refusals"
	"github.com/brimgo/brim/store"
	"github.com/brimgo/brim/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(redistest.With(m)) }

// skewed watches a store for fills that were decided while the clock was behind the bucket's
// time. If such a fill is accepted, or can never fit, its answer does not tell how far the clock
// was behind. An estimate from that answer lets the bucket leak too early, so the wrapper asks
// the store too soon. That error is safe (see TestBehindItsBucket), but the suite demands exact
// answers. So each such fill puts the wrapper's clock back, and the wrapper then ignores all
// older answers.
type skewed struct {
	store.Store
	clock  func() time.Time
	behind atomic.Int64
}

func (s *skewed) Fill(ctx context.Context, op store.Op) (store.State, error) {
	st, err := s.Store.Fill(ctx, op)
	lagUnknown := st.Accepted || st.RetryAfter == store.Never
	if err == nil && lagUnknown && st.At.After(s.clock()) {
		s.behind.Add(1)
	}
	return st, err
}

// wrapperClock is the clock of the wrapper.
func (s *skewed) wrapperClock() time.Time {
	return s.clock().Add(-time.Duration(s.behind.Load()) * 10_000 * time.Hour)
}

// TestConformance runs the whole suite with three options. A long Remember makes the wrapper
// answer from memory as often as it can; the second case is the default; in the smallest table,
// buckets evict each other. The last case is over a store on a server.
func TestConformance(t *testing.T) {
	for _, c := range []struct {
		name string
		over func(testing.TB, func() time.Time) store.Store
		o    refusals.Options
		ops  int
	}{
		{"long memory", inMemory, refusals.Options{Remember: 1000 * time.Hour}, 20_000},
		{"default", inMemory, refusals.Options{}, 5000},
		{"few buckets", inMemory, refusals.Options{Remember: 1000 * time.Hour, MaxBuckets: 1}, 5000},
		{"redis", inRedis, refusals.Options{Remember: 1000 * time.Hour}, 1000},
	} {
		if testing.Short() {
			c.ops /= 4 // the first case remains a full run of the suite
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			wrap := func(t *testing.T, s store.Store, o refusals.Options) store.Store {
				w, err := refusals.New(s, &o)
				if err != nil {
					t.Fatal(err)
				}
				return w
			}
			storetest.Run(t, func(t *testing.T) store.Store { return wrap(t, c.over(t, nil), c.o) }, &storetest.Options{
				OpenAt: func(t *testing.T, clock func() time.Time) store.Store {
					s := &skewed{Store: c.over(t, clock), clock: clock}
					o := c.o
					o.Clock = s.wrapperClock
					return wrap(t, s, o)
				},
				Operations: c.ops,
				Keys:       min(2000, c.ops),
			})
		})
	}
}

func inMemory(t testing.TB, clock func() time.Time) store.Store {
	t.Helper()
	s, err := memory.New(&memory.Options{Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func inRedis(t testing.TB, clock func() time.Time) store.Store { return buckets.Open(t, clock) }
