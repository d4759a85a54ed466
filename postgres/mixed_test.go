package postgres_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/store"
)

// try puts in n units if they fit, and fails if the answer contradicts itself or its limit.
func try(t *testing.T, s store.Store, b store.Bucket, n float64) (accepted bool, err error) {
	st, err := s.Fill(t.Context(), op(b, n, store.IfFits))
	switch {
	case err != nil:
	case st.Capacity != b.Capacity || st.LeakRate != b.LeakRate:
		err = fmt.Errorf("answered by another limit: %+v", st)
	case st.Accepted != (st.RetryAfter == 0):
		err = fmt.Errorf("%+v: a wait that does not go with the answer", st)
	case st.Accepted && st.Level > b.Capacity:
		err = fmt.Errorf("%+v: accepted past the capacity", st)
	case !st.Accepted && st.Level+n <= b.Capacity:
		err = fmt.Errorf("%+v: refused %v, which fits", st, n)
	}
	return st.Accepted, err
}

// TestSeveralLimitsAtOnce fills one key by different limits at the same time, through two stores.
// Each caller gets an answer by its own limit.
func TestSeveralLimitsAtOnce(t *testing.T) {
	schema := migrated(t)
	stores := [2]*postgres.Store{
		over(t, pgtest.Pool(t), postgres.Options{Schema: schema, Lanes: 1}),
		over(t, pgtest.Pool(t), postgres.Options{Schema: schema}),
	}
	capacities := []float64{50, 100, 200, 200.5}
	var accepted atomic.Int64
	// 1,600 tries, half of them with a capacity of at least 200, fill the bucket.
	concurrently(t, 1600, func(i int64) error {
		limit := store.Limit{Capacity: capacities[rand.IntN(len(capacities))]}
		ok, err := try(t, stores[i%2], limit.For("k"), 1)
		if ok {
			accepted.Add(1)
		}
		return err
	})
	if level := stateOf(t, stores[0], "k").Level; accepted.Load() != 200 || level != 200 {
		t.Errorf("%d accepted, level %v; want 200 and 200", accepted.Load(), level)
	}
}

// TestPrefixSumsRound has three calls in one statement. A sum rounds in another way than one
// amount after the other: 0.3 and (0.1 + 0.1 + 0.1) is more than 0.6, and 0.5 and 0.1 is not.
// The last call must get an answer, and not a refusal without a wait.
func TestPrefixSumsRound(t *testing.T) {
	for _, c := range []struct {
		capacity, level, amount float64
		calls                   int
	}{
		{0.6, 0.3, 0.1, 3},
		{0.7, 0.1, 0.2, 3},
		{1.2, 0.4, 0.2, 4},
	} {
		for _, present := range []bool{true, false} {
			pool := pgtest.PoolAt(t, pgtest.With(t, "pool_max_conns=1"))
			s := over(t, pool, postgres.Options{Schema: migrated(t), Lanes: 1})
			b := store.Limit{Capacity: c.capacity}.For("k")
			want := c.calls
			if present {
				fill(t, s, op(b, c.level, store.IfFits))
			} else {
				want = int(c.capacity/c.amount + 0.5)
			}
			taken, err := pool.Acquire(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var wg, started sync.WaitGroup
			var accepted atomic.Int64
			started.Add(c.calls + 4)
			for range c.calls + 4 {
				wg.Go(func() {
					started.Done()
					ok, err := try(t, s, b, c.amount)
					if err != nil {
						t.Error(err)
					}
					if ok {
						accepted.Add(1)
					}
				})
			}
			started.Wait()
			taken.Release()
			wg.Wait()
			if n := accepted.Load(); int(n) > want || int(n) < want-1 {
				t.Errorf("%+v: %d accepted, want %d or, by rounding, one less", c, n, want)
			}
		}
	}
}
