package postgres

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/internal/seed"
	"github.com/brimgo/brim/migrations"
	"github.com/brimgo/brim/store"
)

// TestFlushesLockInOrder has three stores send flushes of every kind over the same few keys. No
// flush has a lock_timeout, so one that locks in another order deadlocks. Each level must be the
// answer to exactly one unit, and must come with the units that are held.
func TestFlushesLockInOrder(t *testing.T) {
	t.Parallel()
	const keys, held = 30, 3
	ctx := context.Background()
	server := pgtest.NewServer(t, "deadlock_timeout=1ms")
	admin := server.Pool(t)
	if err := migrations.Up(ctx, admin, nil); err != nil {
		t.Fatal(err)
	}
	limit := store.Limit{Capacity: 1 << 36}
	var stores []*Store
	var pools []*pgxpool.Pool
	for range 3 {
		cfg := admin.Config()
		cfg.ConnConfig.RuntimeParams["application_name"] = "measured"
		pool, err := pgxpool.NewWithConfig(ctx, cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer pool.Close()
		s, err := New(pool, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		pools, stores = append(pools, pool), append(stores, s)
	}
	name := func(i int) string { return fmt.Sprintf("key %02d", i*7%100) }
	for i := range keys {
		if _, err := stores[0].Fill(ctx, store.Op{Bucket: limit.For(name(i)), Hold: held}); err != nil {
			t.Fatal(err)
		}
	}

	var mu sync.Mutex
	levels := make(map[string][]float64) // that were answered
	answered := func(g group, r row, s *Store) (open int) {
		open = len(answerTries(s, g, r))
		mu.Lock()
		defer mu.Unlock()
		for _, r := range g.reqs {
			if r.Out.Held != held {
				t.Errorf("%d held in the answer %+v, want %d", int(r.Out.Held), r.Out, held)
			}
			levels[r.In.Key] = append(levels[r.In.Key], r.Out.Level)
		}
		return open
	}
	// Real time, because the server looks for deadlocks by its own clock.
	deadline := time.Now().Add(time.Duration(seed.Attempts(2, 60)) * time.Second)
	var wg sync.WaitGroup
	flushes := make([]int, 3) // by kind
	for g := range 12 {
		s, pool := stores[g%3], pools[g%3]
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(3, uint64(g)))
			f := &filler{s: s}
			for n := 0; time.Now().Before(deadline) && !t.Failed(); n++ {
				kind := n % 3
				var reqs []*fillRequest
				var txn store.Txn
				for _, i := range rnd.Perm(keys)[:2+rnd.IntN(10)] {
					op := store.Op{Bucket: limit.For(name(i)), Amount: 1}
					txn = append(txn, op)
					for range 1 + rnd.IntN(5)/4 {
						reqs = append(reqs, &fillRequest{In: op})
					}
				}
				if kind == 2 {
					res, err := s.Apply(ctx, txn)
					if err != nil || !res[0].Accepted {
						t.Errorf("apply: %+v, %v", res, err)
						return
					}
					mu.Lock()
					flushes[kind]++
					for i := range txn {
						levels[txn[i].Key] = append(levels[txn[i].Key], res[0].States[i].Level)
					}
					mu.Unlock()
					continue
				}
				groups := f.sort(reqs)
				rows, err := s.send(ctx, pool, groups, map[int]reach{0: alone, 1: whole}[kind], nil)
				if err != nil {
					t.Errorf("a flush of kind %d: %v", kind, err)
					return
				}
				for i, g := range groups {
					if !rows[i].answered || answered(g, rows[i], s) > 0 {
						t.Errorf("a flush of kind %d left a bucket with room unanswered", kind)
					}
				}
				mu.Lock()
				flushes[kind]++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	t.Logf("flushes by the UPDATE, by all statements and by transactions: %v", flushes)
	for i := range keys {
		got := levels[name(i)]
		slices.Sort(got)
		for n, level := range got {
			if level != float64(n+1) {
				t.Errorf("the levels of a bucket contain %v in the place of %d: a unit was lost or answered twice", level, n+1)
				break
			}
		}
	}
	for i := range stores { // a connection reports its statistics at the latest when it ends
		if err := stores[i].Close(); err != nil {
			t.Error(err)
		}
		pools[i].Close()
	}
	for sessions := 1; sessions > 0; {
		if err := admin.QueryRow(ctx, "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'measured'").Scan(&sessions); err != nil {
			t.Fatal(err)
		}
	}
	var deadlocks int
	err := admin.QueryRow(ctx, "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()").Scan(&deadlocks)
	if err != nil || deadlocks != 0 {
		t.Errorf("%d deadlocks, %v", deadlocks, err)
	}
}
