package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/brimgo/brim/store"
)

// failing tests that a request that cannot be decided fails alone.
func (s *suite) failing(t *testing.T) {
	const why = "a request that fails in a combined batch must not fail its neighbours"
	limit := store.Limit{Capacity: 1 << 40}
	t.Run("among racing callers", func(t *testing.T) {
		st := s.real(t)
		var wg sync.WaitGroup
		s.finishes(t, "succeeding and failing callers", func(ctx context.Context) {
			for g := range 32 {
				wg.Go(func() {
					for i := range 8 {
						key := []string{"hot", fmt.Sprint(g % 4)}[i%2]
						if g%4 == 0 {
							release := store.Op{Bucket: limit.For(key), Hold: -4, Mode: store.Always}
							if _, err := st.Fill(ctx, release); !errors.Is(err, store.ErrNotHeld) {
								t.Errorf("release of units that are not held: %v, want ErrNotHeld", err)
							}
							release.Bucket = limit.For("other")
							res, err := st.Apply(ctx, store.Txn{{Bucket: limit.For(key), Amount: 1 << 20}, release})
							if err != nil || !errors.Is(res[0].Err, store.ErrNotHeld) {
								t.Errorf("transaction with a failing release: %+v, %v; want ErrNotHeld in its result",
									res, err)
							}
							continue
						}
						got, err := st.Fill(ctx, store.Op{Bucket: limit.For(key), Amount: 1})
						if err != nil || !got.Accepted {
							t.Errorf("fill beside failing requests: %+v, %v\nwhy: %s", got, err, why)
						}
					}
				})
			}
			wg.Wait()
		})
		if got, err := st.Fill(t.Context(), store.Op{Bucket: limit.For("after"), Amount: 1}); err != nil || !got.Accepted {
			t.Errorf("fill after failing requests: %+v, %v\nwhy: %s", got, err, why)
		}
		got, err := st.Read(t.Context(), limit.For("hot"), limit.For("0"), limit.For("1"), limit.For("other"))
		if err != nil || got[0].Level != 96 || got[1].Level != 0 || got[2].Level != 32 || got[3].Level != 0 {
			t.Errorf("afterwards %+v, %v; want levels 96, 0, 32 and 0\nwhy: %s", got, err, why)
		}
	})
	t.Run("among transactions", func(t *testing.T) {
		st := s.real(t)
		limit := store.Limit{Capacity: 10}
		try := func(key string, n float64) store.Op { return store.Op{Bucket: limit.For(key), Amount: n} }
		release := store.Op{Bucket: limit.For("b"), Hold: -4, Mode: store.Always}
		res, err := st.Apply(t.Context(),
			store.Txn{try("a", 6)},
			store.Txn{try("a", 6)},
			store.Txn{try("b", 3), try("a", 5)},
			store.Txn{try("c", 1), release},
			store.Txn{try("b", 2), try("a", 4)},
			store.Txn{release},
			store.Txn{try("c", 10)},
		)
		if err != nil || len(res) != 7 {
			t.Fatalf("Apply: %d results, %v; want 7", len(res), err)
		}
		for i, want := range []struct {
			accepted bool
			err      error
			level    float64 // of the last operation's bucket
		}{
			{true, nil, 6},
			{false, nil, 6},
			{false, nil, 6},
			{false, store.ErrNotHeld, 0},
			{true, nil, 10},
			{false, store.ErrNotHeld, 0},
			{true, nil, 10},
		} {
			got := res[i]
			if got.Accepted != want.accepted || !errors.Is(got.Err, want.err) {
				t.Errorf("transaction %d: %+v, want accepted = %v, %v\nwhy: each transaction is decided by "+
					"itself, in order",
					i, got, want.accepted, want.err)
				continue
			}
			if want.err == nil && got.States[len(got.States)-1].Level != want.level {
				t.Errorf("transaction %d: %+v, want level %v", i, got, want.level)
			}
		}
	})
}

// unsupported tests that the store answers operations that it does not support with
// ErrUnsupported, and never ignores a mode or a field.
func (s *suite) unsupported(t *testing.T) {
	st := s.real(t)
	b := store.Limit{Capacity: 10}.For("b")
	var ops []store.Op
	for _, mode := range []store.Mode{store.Unblock + 1, 100, 255} {
		ops = append(ops,
			store.Op{Bucket: b, Amount: 1, Mode: mode},
			store.Op{Bucket: b, Hold: 1, Mode: mode},
			store.Op{Bucket: b, Mode: mode})
	}
	for _, op := range []store.Op{
		{Bucket: b, Amount: 1},
		{Bucket: b, Amount: -1},
		{Bucket: b, Amount: 1, Mode: store.Clamp},
		{Bucket: b, Amount: 1, Mode: store.Always},
		{Bucket: b, Hold: 1},
		{Bucket: b, Amount: 1, Hold: -4, Mode: store.Always},
		{Bucket: b, Amount: 1, Ceiling: 5},
		{Bucket: b, Amount: -1, Ceiling: 5, CeilingAt: time.Now()},
		{Bucket: b, Amount: 11, BlockFor: time.Hour},
		{Bucket: b, Amount: 11, BlockFor: store.UntilEmpty},
		{Bucket: b, BlockFor: time.Hour, Mode: store.Block},
		{Bucket: b, Mode: store.Unblock},
	} {
		if !s.supports(op) {
			ops = append(ops, op)
		}
	}
	for _, op := range ops {
		if got, err := st.Fill(t.Context(), op); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("Fill of %+v: %+v, %v; want errors.ErrUnsupported\nwhy: a store that ignores a mode or field "+
				"decides another operation than the caller asked for",
				op, got, err)
		}
		// The whole call may fail, or the transaction alone. Either way nothing may go in.
		res, err := st.Apply(t.Context(), store.Txn{{Bucket: store.Limit{Capacity: 10}.For("a"), Amount: 1}, op})
		if err == nil && len(res) == 1 {
			err = res[0].Err
		}
		if !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("Apply of %+v: %+v, %v; want errors.ErrUnsupported", op, res, err)
		}
	}
	if got := visited(t, st, ""); len(got) != 0 {
		t.Errorf("unsupported operations left buckets %q, want none", got)
	}
}
