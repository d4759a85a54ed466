package storetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/brimgo/brim/store"
)

// atomicity races transactions over overlapping sets of keys.
func (s *suite) atomicity(t *testing.T) {
	st := s.real(t)
	t.Run("overlapping keys", func(t *testing.T) { s.overlapping(t, st) })
	t.Run("nothing shows of a refused transaction", func(t *testing.T) { s.invisible(t, st) })
	t.Run("many keys", func(t *testing.T) { s.manyKeys(t, st) })
}

// overlapping fills overlapping sets of keys in random order, and compares the levels with the
// accepted transactions.
func (s *suite) overlapping(t *testing.T, st store.Store) {
	const why = "callers may name keys in any order without a deadlock, and no transaction goes in by half"
	const keys = 8
	limit := store.Limit{Capacity: 100}
	name := func(i int) string { return fmt.Sprintf("overlap/%d", i) }
	var filled [keys]atomic.Int64
	var refused atomic.Int64
	var wg sync.WaitGroup
	s.finishes(t, "overlapping transactions", func(ctx context.Context) {
		for g := range 16 {
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(uint64(g), 15))
				for range 25 {
					chosen := rng.Perm(keys)[:2+rng.IntN(4)]
					var txn store.Txn
					for _, k := range chosen {
						txn = append(txn, store.Op{Bucket: limit.For(name(k)), Amount: float64(1 + k%2)})
					}
					res, err := st.Apply(ctx, txn)
					if err != nil || len(res) != 1 || res[0].Err != nil {
						t.Errorf("Apply: %+v, %v\nwhy: %s", res, err, why)
						return
					}
					waits := 0
					for i, state := range res[0].States {
						if state.RetryAfter != 0 {
							waits++
						}
						if state.Accepted != res[0].Accepted || state.Level > 100 {
							t.Errorf("state %d of %+v\nwhy: %s", i, res[0], why)
						}
					}
					if res[0].Accepted != (waits == 0) {
						t.Errorf("%+v: want a RetryAfter after a refusal, and only then", res[0])
					}
					if !res[0].Accepted {
						refused.Add(1)
						continue
					}
					for _, k := range chosen {
						filled[k].Add(int64(1 + k%2))
					}
				}
			})
		}
		wg.Wait()
	})
	for i := range keys {
		got, err := st.Read(t.Context(), limit.For(name(i)))
		if err != nil || got[0].Level != float64(filled[i].Load()) {
			t.Errorf("key %d: %+v, %v; want level %d, the sum of the accepted transactions\nwhy: %s",
				i, got, err, filled[i].Load(), why)
		}
	}
	if refused.Load() == 0 {
		t.Error("no transaction was refused, although they exceed the capacities")
	}
}

// invisible reads a bucket while transactions are refused that fit into this bucket but not
// into another.
func (s *suite) invisible(t *testing.T, st store.Store) {
	const why = "if a store puts an amount in and takes it out again, other callers find it, and it stays in " +
		"after a crash"
	limit := store.Limit{Capacity: 10}
	a, b := limit.For("seen/a"), limit.For("seen/b")
	if _, err := st.Fill(t.Context(), store.Op{Bucket: b, Amount: 10}); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	s.finishes(t, "refused transactions", func(ctx context.Context) {
		for range 4 {
			wg.Go(func() {
				for range 50 {
					res, err := st.Apply(ctx, store.Txn{{Bucket: a, Amount: 6}, {Bucket: b, Amount: 1}})
					if err != nil || res[0].Accepted {
						t.Errorf("Apply: %+v, %v; want a refusal", res, err)
					}
				}
			})
			wg.Go(func() {
				for i := range 100 {
					// A refused call reports the level too.
					got, err := st.Read(ctx, a)
					if err != nil || got[0].Level != 0 {
						t.Errorf("read %d: %+v, %v; want level 0\nwhy: %s", i, got, err, why)
						return
					}
					refused, err := st.Fill(ctx, store.Op{Bucket: a, Amount: 11})
					if err != nil || refused.Level != 0 {
						t.Errorf("refusal %d: %+v, %v; want level 0\nwhy: %s", i, refused, err, why)
						return
					}
				}
			})
		}
		wg.Wait()
	})
}

// manyKeys applies transactions over 300 keys.
func (s *suite) manyKeys(t *testing.T, st store.Store) {
	limit := store.Limit{Capacity: 10}
	var txn store.Txn
	for i := range 300 {
		txn = append(txn, store.Op{Bucket: limit.For(fmt.Sprintf("many/%d", i*7919%300)), Amount: 6})
	}
	last := store.Op{Bucket: limit.For("many/last"), Amount: 11}
	res, err := st.Apply(t.Context(), txn, append(txn[:len(txn):len(txn)], last), txn)
	if err != nil || len(res) != 3 || !res[0].Accepted || res[1].Accepted || res[2].Accepted {
		t.Fatalf("transactions over 300 keys: %v; want accepted, refused, refused", err)
	}
	for i, state := range res[1].States {
		// Each of the 300 keys is over its capacity at the second fill, the last key at its
		// first.
		if state.RetryAfter != never || i < 300 && state.Level != 6 {
			t.Fatalf("operation %d: %+v, want level 6 and Never", i, state)
		}
	}
	if got := visited(t, st, "many/"); len(got) != 300 {
		t.Errorf("the store lists %d keys, want 300", len(got))
	}
}
