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

// pair returns two stores on one table, like those of two processes.
func pair(t *testing.T) [2]*postgres.Store {
	t.Helper()
	pool := pgtest.Pool(t)
	schema := migrated(t)
	return [2]*postgres.Store{
		over(t, pool, postgres.Options{Schema: schema, Lanes: 1}),
		over(t, pgtest.Pool(t), postgres.Options{Schema: schema}),
	}
}

// crowd runs f in 64 goroutines, half of them on each store, each with its own random numbers.
func crowd(t *testing.T, stores [2]*postgres.Store, f func(s *postgres.Store, rnd *rand.Rand) error) {
	t.Helper()
	var wg sync.WaitGroup
	for g := range 64 {
		wg.Go(func() {
			if err := f(stores[g%2], rand.New(rand.NewPCG(7, uint64(g)))); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

// sound fails t if an answer contradicts itself or its limit.
func sound(o store.Op, st store.State) error {
	switch {
	case st.Capacity != o.Capacity || st.LeakRate != o.LeakRate:
		return fmt.Errorf("answered by another limit: %+v", st)
	case st.Accepted != (st.RetryAfter == 0):
		return fmt.Errorf("%+v: a wait that does not go with the answer", st)
	case o.Mode == store.IfFits && st.Accepted && st.Level+st.Held > o.Capacity:
		return fmt.Errorf("%+v: accepted past the capacity", st)
	case o.Mode == store.IfFits && !st.Accepted && st.Level+st.Held+o.Amount+o.Hold <= o.Capacity:
		return fmt.Errorf("%+v: refused %v, which fits", st, o.Amount+o.Hold)
	case o.Mode == store.Clamp && !st.Accepted && !st.Full:
		return fmt.Errorf("%+v: clamped without being full", st)
	}
	return nil
}

// ask fills and checks that the answer is sound.
func ask(t *testing.T, s store.Store, o store.Op) (store.State, error) {
	st, err := s.Fill(t.Context(), o)
	if err == nil {
		err = sound(o, st)
	}
	return st, err
}

// TestSeveralLimitsAtOnce fills one key by different limits at the same time. Each caller gets
// an answer by its own limit.
func TestSeveralLimitsAtOnce(t *testing.T) {
	stores := pair(t)
	capacities := []float64{50, 100, 200, 200.5}
	var accepted atomic.Int64
	var most [4]atomic.Int64
	crowd(t, stores, func(s *postgres.Store, rnd *rand.Rand) error {
		for range 25 {
			i := rnd.IntN(len(capacities))
			st, err := ask(t, s, op(store.Limit{Capacity: capacities[i]}.For("k"), 1, store.IfFits))
			if err != nil {
				return err
			}
			if st.Accepted {
				accepted.Add(1)
				for high := most[i].Load(); int64(st.Level) > high && !most[i].CompareAndSwap(high, int64(st.Level)); high = most[i].Load() {
				}
			}
		}
		return nil
	})
	// 1,600 tries, half of them with a capacity of at least 200, fill the bucket.
	if level := stateOf(t, stores[0], "k").Level; accepted.Load() != 200 || level != 200 {
		t.Errorf("%d accepted, level %v; want 200 and 200", accepted.Load(), level)
	}
	for i, c := range capacities {
		if got := most[i].Load(); float64(got) > c {
			t.Errorf("with a capacity of %v the level rose to %d", c, got)
		}
	}
}

// TestDecimalAmounts uses amounts that doubles do not hold exactly. The bucket fills to within
// rounding and never past its capacity. A refused amount must not fit.
func TestDecimalAmounts(t *testing.T) {
	stores := pair(t)
	for round, c := range []struct {
		capacity float64
		amounts  []float64
	}{
		{10, []float64{0.1}},
		{0.7, []float64{0.1, 0.2}},
		{3.3, []float64{0.1, 0.3, 0.7}},
		{19.99, []float64{0.01, 1.1, 0.33}},
	} {
		for leak := range 2 {
			b := store.Limit{Capacity: c.capacity, LeakRate: float64(leak) * 1e-9}.For(fmt.Sprint(round, "/", leak))
			var mu sync.Mutex
			sum := 0.0
			crowd(t, stores, func(s *postgres.Store, rnd *rand.Rand) error {
				for range 10 {
					n := c.amounts[rnd.IntN(len(c.amounts))]
					st, err := ask(t, s, op(b, n, store.IfFits))
					if err != nil {
						return err
					}
					if st.Accepted {
						mu.Lock()
						sum += n
						mu.Unlock()
					}
				}
				return nil
			})
			level := stateOf(t, stores[0], b.Key).Level
			if level > c.capacity || level <= c.capacity-2*c.amounts[0] || sum < level-1e-6 || sum > level+1e-6 {
				t.Errorf("capacity %v, amounts %v: level %v after %v was accepted", c.capacity, c.amounts, level, sum)
			}
		}
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
			pool := poolAt(t, tune(pgtest.URL(t), "pool_max_conns=1"))
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
					st, err := ask(t, s, op(b, c.amount, store.IfFits))
					if err != nil {
						t.Error(err)
					} else if st.Accepted {
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
