package local_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/brimgo/brim/internal/seed"
	"github.com/brimgo/brim/local"
	"github.com/brimgo/brim/store"
	"github.com/brimgo/brim/store/storetest"
)

// skewed watches a store for answers from which the wrapper makes estimates that are safe, while
// the suite demands exact answers. Each such answer puts the wrapper's clock back, and the wrapper
// then ignores all older answers.
//
// The fill was decided while the clock was behind the bucket's time, and the answer does not tell
// how far: the wrapper asks the store too soon (see TestBehindItsBucket). Or the bucket leaks at
// another rate than the call's, which a refusal under a block, a question and an amount above the
// capacity leave as it is.
type skewed struct {
	store.Store
	clock  func() time.Time
	behind atomic.Int64
}

func (s *skewed) Fill(ctx context.Context, op store.Op) (store.State, error) {
	st, err := s.Store.Fill(ctx, op)
	if err != nil {
		return st, err
	}
	kept := !st.BlockedUntil.IsZero() || st.RetryAfter == store.Never || op.Mode == store.Ask
	otherRate := false
	if kept {
		var written []store.State
		if written, err = s.Read(ctx, store.Bucket{Key: op.Key}); err == nil {
			otherRate = written[0].LeakRate != op.LeakRate
		}
	}
	if otherRate || (kept || st.Accepted) && st.At.After(s.clock()) {
		s.behind.Add(1)
	}
	return st, err
}

// wrapperClock is the clock of the wrapper.
func (s *skewed) wrapperClock() time.Time {
	return s.clock().Add(-time.Duration(s.behind.Load()) * 10_000 * time.Hour)
}

// TestConformance runs the whole suite over a store in memory and one on a server.
//
// Refusals with a long Remember answer from memory as often as they can; in the smallest table,
// buckets evict each other. Leases get a share too small for any allotment, so that each call
// reaches the store and its answer must come back unchanged. Allotments would break the suite,
// which demands exact levels: a bucket with allotments is fuller than the units that were served.
// TestModel tests allotments.
func TestConformance(t *testing.T) {
	type open func(testing.TB, func() time.Time) store.Store
	refusing := func(o local.RefusalsOptions) func(testing.TB, open, func() time.Time) store.Store {
		return func(t testing.TB, over open, clock func() time.Time) store.Store {
			if clock == nil {
				return refusals(t, over(t, nil), &o)
			}
			s := &skewed{Store: over(t, clock), clock: clock}
			o := o
			o.Clock = s.wrapperClock
			return refusals(t, s, &o)
		}
	}
	leasing := func(t testing.TB, over open, clock func() time.Time) store.Store {
		return leases(t, over(t, clock), &local.LeasesOptions{Share: 1e-30})
	}
	falling := func(t testing.TB, over open, clock func() time.Time) store.Store {
		return fallback(t, over(t, clock), &local.FallbackOptions{Patience: time.Hour})
	}
	for _, c := range []struct {
		name string
		over open
		wrap func(testing.TB, open, func() time.Time) store.Store
		ops  int
	}{
		{"refusals, long memory", inMemory, refusing(local.RefusalsOptions{Remember: 1000 * time.Hour}), seed.Attempts(6_000, 200_000)},
		{"refusals, few buckets", inMemory, refusing(local.RefusalsOptions{Remember: 1000 * time.Hour, MaxBuckets: 1}), 5000},
		{"refusals, redis", inRedis, refusing(local.RefusalsOptions{Remember: 1000 * time.Hour}), 1000},
		{"leases", inMemory, leasing, 5000},
		{"fallback", inMemory, falling, 5000},
	} {
		if testing.Short() {
			c.ops /= 4 // the first case remains a full run of the suite
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			at := func(t *testing.T, clock func() time.Time) store.Store { return c.wrap(t, c.over, clock) }
			storetest.Run(t, func(t *testing.T) store.Store { return at(t, nil) }, &storetest.Options{
				OpenAt: at, Operations: c.ops, Keys: min(2000, c.ops),
			})
		})
	}
}
