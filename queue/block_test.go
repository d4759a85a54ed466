package queue_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/queue"
	"github.com/brimgo/brim/store"
)

// TestBlock checks that waiting Puts get room in the order of their calls. The item of a Put
// whose context ends must not enter the queue.
func TestBlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLog()
		q := open(t, brim.Smooth(10, 300*ms), l.record, &queue.Options[int]{Block: true, Cost: func(i int) float64 {
			if i == 5 {
				return 3
			}
			return 1
		}})
		for i := range 4 {
			must(t, q.Put(t.Context(), i))
			synctest.Wait() // item 0 is released at once
		}
		var wg sync.WaitGroup
		put := func(ctx context.Context, item int, want error, after time.Duration) {
			wg.Go(func() {
				start := time.Now()
				if err := q.Put(ctx, item); !errors.Is(err, want) || time.Since(start) != after {
					t.Errorf("item %d: %v after %v; want %v after %v", item, err, time.Since(start), want, after)
				}
			})
			synctest.Wait()
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*ms)
		defer cancel()
		put(t.Context(), 4, nil, 100*ms)
		put(ctx, 5, context.DeadlineExceeded, 50*ms)
		put(t.Context(), 6, nil, 200*ms)
		put(t.Context(), 7, nil, 300*ms)
		if n := q.Len(); n != 3 {
			t.Errorf("Len is %d; want 3", n)
		}
		wg.Wait()
		if err := q.Close(t.Context()); err != nil {
			t.Error(err)
		}
		l.check(t, "item 5 was withdrawn while it waited for room",
			release{0, 0}, release{1, 100 * ms}, release{2, 200 * ms}, release{3, 300 * ms},
			release{4, 400 * ms}, release{6, 500 * ms}, release{7, 600 * ms})
	})
}

// TestWithdrawnItemMakesRoom ends the wait of a large item. The small item behind it must enter
// the queue at once, although nothing was released.
func TestWithdrawnItemMakesRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLog()
		q := open(t, store.Limit{Capacity: 10, LeakRate: 1}, l.record, &queue.Options[int]{
			Block: true, Cost: func(i int) float64 { return float64(i) },
		})
		for _, item := range []int{10, 6} {
			must(t, q.Put(t.Context(), item))
			synctest.Wait()
		}
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := q.Put(ctx, 5); !errors.Is(err, context.Canceled) {
				t.Errorf("the large item: %v; want context.Canceled", err)
			}
		})
		synctest.Wait()
		wg.Go(func() {
			if err := q.Put(t.Context(), 4); err != nil || time.Since(l.start) != time.Second {
				t.Errorf("the small item: %v after %v; want no error after 1s", err, time.Since(l.start))
			}
		})
		time.Sleep(time.Second)
		cancel()
		wg.Wait()
		if left := q.Abandon(); !slices.Equal(left, []int{6, 4}) {
			t.Errorf("left %v; want 6 and 4", left)
		}
	})
}
