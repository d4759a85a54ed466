package postgres_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/internal/seed"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/store"
)

// TestNoDeadlocksAndNoPartialFills fills random sets of keys in any order, from two stores, all
// or nothing, with single fills, drains, deletes and pruning between them. No call may
// deadlock, and every bucket must hold exactly the units that were granted.
func TestNoDeadlocksAndNoPartialFills(t *testing.T) {
	t.Parallel()
	const keys, gone, capacity = 50, 8, 400
	least := int64(seed.Attempts(200, 2000))              // of each outcome
	server := pgtest.NewServer(t, "deadlock_timeout=1ms") // below every lock_timeout, which would hide a deadlock
	pools := []*pgxpool.Pool{
		poolAt(t, tune(server.URL(), "application_name=measured")),
		poolAt(t, tune(server.URL(), "application_name=measured")),
	}
	schema := migrateOn(t, pools[0])
	var stores []store.Store
	for _, p := range pools {
		stores = append(stores, over(t, p, postgres.Options{Schema: schema}))
	}
	limit := store.Limit{Capacity: capacity}
	name := func(i int) string { return fmt.Sprintf("key %02d", i*7%100) } // keys that are deleted lie between the others
	var granted [keys]atomic.Int64
	var accepted, refused atomic.Int64

	deadline := time.Now().Add(time.Minute)
	more := func() bool {
		return (accepted.Load() < least || refused.Load() < least) && time.Now().Before(deadline)
	}
	var wg sync.WaitGroup
	for g := range 16 {
		s := stores[g%2]
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(1, uint64(g)))
			var mine [keys]int64
			for more() {
				var txn store.Txn
				set := rnd.Perm(keys + gone)[:2+rnd.IntN(9)]
				for _, i := range set {
					txn = append(txn, op(limit.For(name(i)), float64(1+rnd.IntN(5)), store.IfFits))
				}
				res, err := s.Apply(t.Context(), txn)
				if err != nil || res[0].Err != nil {
					t.Errorf("apply: %v", err)
					return
				}
				if res[0].Accepted {
					accepted.Add(1)
					for n, i := range set {
						if i < keys {
							granted[i].Add(int64(txn[n].Amount))
							mine[i] += int64(txn[n].Amount)
						}
					}
					continue
				}
				refused.Add(1)
				for n, i := range set { // makes room: takes out the units of this goroutine, which no other takes out
					if res[0].States[n].RetryAfter != 0 && i < keys && mine[i] > 0 {
						if _, err := s.Fill(t.Context(), op(limit.For(name(i)), -float64(mine[i]), store.Always)); err != nil {
							t.Errorf("drain: %v", err)
							return
						}
						granted[i].Add(-mine[i])
						mine[i] = 0
					}
				}
			}
		})
	}
	for g := range 3 {
		s := stores[g%2]
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(2, uint64(g)))
			for more() {
				var err error
				switch i := rnd.IntN(keys); rnd.IntN(4) {
				case 0, 1:
					var st store.State
					if st, err = s.Fill(t.Context(), op(limit.For(name(i)), 1, store.IfFits)); err == nil && st.Accepted {
						granted[i].Add(1)
					}
				case 2:
					var doomed []string
					for _, i := range rnd.Perm(gone)[:3] {
						doomed = append(doomed, name(keys+i))
					}
					err = s.Delete(t.Context(), doomed...)
				case 3:
					_, err = s.Prune(t.Context())
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()

	for i := range keys {
		if got, want := stateOf(t, stores[0], name(i)).Level, float64(granted[i].Load()); got != want {
			t.Errorf("a bucket holds %v, and %v was granted", got, want)
		}
	}
	t.Logf("%d accepted, %d refused", accepted.Load(), refused.Load())
	if accepted.Load() < least || refused.Load() < least {
		t.Errorf("%d accepted and %d refused: too few of either to show anything", accepted.Load(), refused.Load())
	}
	for i, p := range pools { // a connection reports its statistics at the latest when it ends
		if err := stores[i].Close(); err != nil {
			t.Error(err)
		}
		p.Close()
	}
	watch := server.Pool(t)
	reported(t, watch, "measured")
	if n := scalar[int](t, watch, "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"); n != 0 {
		t.Errorf("%d deadlocks", n)
	}
}
