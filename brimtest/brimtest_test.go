package brimtest_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/brimtest"
	"github.com/brimgo/brim/memory"
)

// A test of a program that limits needs no sleep: it moves the clock of the store.
func Example() {
	clock := brimtest.NewClock(time.Date(2024, 6, 1, 12, 0, 0, 0, time.UTC))
	db := memory.New(&memory.Options{Clock: clock.Now})
	lim := brim.New(db, nil)
	hourly := brim.Over(2, time.Hour).For("user:7")
	for _, wait := range []time.Duration{0, 0, 0, 30 * time.Minute} {
		clock.Advance(wait)
		st, err := lim.TryFillup(context.Background(), hourly, 1)
		fmt.Println(clock.Now().Format(time.TimeOnly), st, err)
	}
	// Output:
	// 12:00:00 accepted: 1 of 2 units, leak 0.0005555555555555556/s <nil>
	// 12:00:00 accepted: 2 of 2 units, leak 0.0005555555555555556/s <nil>
	// 12:00:00 refused, retry after 30m0s: 2 of 2 units, leak 0.0005555555555555556/s <nil>
	// 12:30:00 accepted: 2 of 2 units, leak 0.0005555555555555556/s <nil>
}

// send sends a mail when it is its turn.
func send(ctx context.Context, lim *brim.Limiter) error {
	_, err := lim.Wait(ctx, brim.Over(2, time.Hour).For("mails"), 1)
	return err
}

// A program that waits is tested in a bubble of package testing/synctest, in which an hour takes no
// time. The store is made inside.
func TestSend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lim := brim.New(memory.New(nil), nil)
		start := time.Now()
		for range 4 {
			if err := send(t.Context(), lim); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(start); took != time.Hour {
			t.Errorf("four mails took %v; want an hour: two at once, and one more every half hour", took)
		}
	})
}

func TestClock(t *testing.T) {
	start := time.Date(1969, 12, 31, 23, 59, 59, 999_999_999, time.UTC)
	clock := brimtest.NewClock(start)
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() { clock.Advance(time.Nanosecond); clock.Now() })
	}
	wg.Wait()
	if got := clock.Now().Sub(start); got != 100 {
		t.Errorf("the clock has moved by %v, want 100ns", got)
	}
	clock.Advance(-time.Second)
	if got := clock.Now().Sub(start); got != 100-time.Second {
		t.Errorf("the clock stands at %v after a step back", got)
	}
	if clock.Set(start); clock.Now() != start {
		t.Errorf("the clock shows %v, want %v", clock.Now(), start)
	}
}
