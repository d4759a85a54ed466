package storetest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/brimgo/brim/store"
)

const (
	// reading is the time that a slow clock takes for one reading. With 16 callers it is long
	// enough that each of them waits for more than a millisecond. A mutex of package sync is then
	// unfair no more: its holder hands it to the longest waiter, and queues up to lock it again.
	reading     = 200 * time.Microsecond
	slowCallers = 16
)

// slowClock races callers on a clock whose readings take long. A store that reads the clock under
// its lock so has all callers wait for the lock all the time. If it releases the lock before it has
// finished, another caller always comes in between.
func (s *suite) slowClock(t *testing.T) {
	st := s.o.OpenAt(t, func() time.Time {
		time.Sleep(reading)
		return time.UnixMicro(start)
	})
	s.closeAtEnd(t, &st)
	t.Run("exactly the capacity", func(t *testing.T) { s.slowExactly(t, st) })
	t.Run("first use", func(t *testing.T) { s.slowFirstUse(t, st) })
	t.Run("opposite orders", func(t *testing.T) { s.slowOrders(t, st) })
}

// slowExactly makes 320 tries for one unit. A bucket of 100 units that does not leak must accept
// exactly 100.
func (s *suite) slowExactly(t *testing.T, st store.Store) {
	const why = "between the decision and the write no other caller may decide"
	for round := range 2 {
		b := store.Limit{Capacity: 100}.For(fmt.Sprintf("slow/%d", round))
		var accepted, fulls atomic.Int64
		s.slowly(t, "tries", func(ctx context.Context, _ int) error {
			for range 20 {
				got, err := tryVia(ctx, st, store.Op{Bucket: b, Amount: 1}, round == 1)
				if err != nil {
					return err
				}
				if got.Accepted {
					accepted.Add(1)
				}
				if got.Full {
					fulls.Add(1)
				}
			}
			return nil
		})
		got, err := st.Read(t.Context(), b)
		if accepted.Load() != 100 || fulls.Load() != 1 || err != nil || got[0].Level != 100 {
			t.Errorf("%d of 320 tries accepted, %d of them Full, and then %+v, %v; want 100, 1 and level 100\nwhy: %s",
				accepted.Load(), fulls.Load(), got, err, why)
		}
	}
}

// slowFirstUse has all callers fill the same new keys, one after the other.
func (s *suite) slowFirstUse(t *testing.T, st store.Store) {
	const why = "if two callers find no bucket, the second insert must not replace the first"
	const keys = 12
	limit := store.Limit{Capacity: 1000}
	name := func(i int) string { return fmt.Sprintf("new/%d", i) }
	s.slowly(t, "first fills", func(ctx context.Context, _ int) error {
		for i := range keys {
			op := store.Op{Bucket: limit.For(name(i)), Amount: 1, Mode: store.Mode(i % 3)}
			if got, err := tryVia(ctx, st, op, i%4 == 3); err != nil || !got.Accepted {
				return fmt.Errorf("first fill of key %d: %+v, %w", i, got, err)
			}
		}
		return nil
	})
	for i := range keys {
		if got, err := st.Read(t.Context(), limit.For(name(i))); err != nil || got[0].Level != slowCallers {
			t.Errorf("key %d after %d fills of 1: %+v, %v\nwhy: %s", i, slowCallers, got, err, why)
		}
	}
}

// slowOrders applies transactions over the same two keys, which half of the callers name in the
// opposite order.
func (s *suite) slowOrders(t *testing.T, st store.Store) {
	const why = "a store that locks keys in the order of the caller deadlocks"
	const txns = 12
	limit := store.Limit{Capacity: 1 << 20}
	a, b := limit.For("order/a"), limit.For("order/b")
	s.slowly(t, "transactions over two keys", func(ctx context.Context, g int) error {
		txn := store.Txn{{Bucket: a, Amount: 1}, {Bucket: b, Amount: 1}}
		if g%2 == 1 {
			txn[0], txn[1] = txn[1], txn[0]
		}
		for range txns {
			res, err := st.Apply(ctx, txn)
			if err != nil || !res[0].Accepted {
				return fmt.Errorf("transaction over two keys: %+v, %w", res, err)
			}
		}
		return nil
	})
	got, err := st.Read(t.Context(), a, b)
	if err != nil || got[0].Level != slowCallers*txns || got[1].Level != slowCallers*txns {
		t.Errorf("afterwards %+v, %v; want two levels of %d\nwhy: %s", got, err, slowCallers*txns, why)
	}
}

// slowly runs callers at once and reports their errors.
func (s *suite) slowly(t *testing.T, calls string, call func(ctx context.Context, g int) error) {
	t.Helper()
	s.finishes(t, calls+" on a slow clock", func(ctx context.Context) {
		var wg sync.WaitGroup
		for g := range slowCallers {
			wg.Go(func() {
				if err := call(ctx, g); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	})
}
