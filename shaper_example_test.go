package brim_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/memory"
)

// Letters are sent one every 20 milliseconds, however fast they come, and none waits longer than 50.
func ExampleShaper_Wait() {
	db, err := memory.New(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	turns, err := brim.NewShaper(brim.New(db, nil), &brim.ShaperOptions{MaxWait: 50 * time.Millisecond})
	if err != nil {
		fmt.Println(err)
		return
	}
	mail := brim.Limit{Capacity: 100, LeakRate: 50}.For("mail")
	began := time.Now()
	for _, letter := range []string{"first", "second", "third"} {
		st, err := turns.Wait(context.Background(), mail, 1)
		if err != nil || !st.Accepted {
			fmt.Println(letter, st.Accepted, err)
			return
		}
		fmt.Println("sent", letter)
	}
	fmt.Println("in 40 ms or more:", time.Since(began) >= 40*time.Millisecond)
	// Output:
	// sent first
	// sent second
	// sent third
	// in 40 ms or more: true
}

// A caller that schedules its own work asks when its turn is.
func ExampleShaper_Reserve() {
	lim, clock := example()
	turns, err := brim.NewShaper(lim, &brim.ShaperOptions{MaxWait: time.Second})
	if err != nil {
		fmt.Println(err)
		return
	}
	crawl := brim.Smooth(2, time.Minute) // pages per second
	for range 4 {
		r, err := turns.Reserve(context.Background(), crawl.For("site:example.com"), 1)
		switch {
		case err != nil:
			fmt.Println(err)
		case r.State.Accepted:
			fmt.Println("turn at", r.Turn().Sub(clock.now))
		default:
			fmt.Println("the queue is too long; come back in", r.State.RetryAfter)
		}
	}
	// Output:
	// turn at 0s
	// turn at 500ms
	// turn at 1s
	// the queue is too long; come back in 500ms
}

// What runs only within the limit can be given as a function.
func ExampleLimiter_Do() {
	lim, _ := example()
	reports := brim.Over(1, time.Hour)
	for range 2 {
		err := lim.Do(context.Background(), reports.For("report"), 1, func(context.Context) error {
			fmt.Println("report written")
			return nil
		})
		var over *brim.OverLimitError
		switch {
		case errors.As(err, &over):
			fmt.Println("not now; again in", over.RetryAfter)
		case err != nil:
			fmt.Println(err)
		}
	}
	// Output:
	// report written
	// not now; again in 1h0m0s
}

// Five wrong passwords within a quarter of an hour lock the login for an hour. Whoever keeps trying stays locked out.
func ExampleLimiter_WithPenalty() {
	lim, clock := example()
	strict := lim.WithPenalty(time.Hour)
	wrong := brim.Over(5, 15*time.Minute)
	for range 6 {
		st, err := strict.TryFillup(context.Background(), wrong.For("login:alice"), 1)
		if err != nil {
			fmt.Println(err)
			return
		}
		if !st.Accepted {
			fmt.Println("locked until", st.BlockedUntil.Format(time.TimeOnly))
		}
	}
	clock.now = clock.now.Add(30 * time.Minute) // the bucket has long been empty
	st, err := lim.AbleToAccept(context.Background(), wrong.For("login:alice"), 1)
	fmt.Println(st.Accepted, err)

	fmt.Println(lim.Reset(context.Background(), "login:alice")) // an operator lifts it
	st, err = lim.AbleToAccept(context.Background(), wrong.For("login:alice"), 1)
	fmt.Println(st.Accepted, err)
	// Output:
	// locked until 13:00:00
	// false <nil>
	// <nil>
	// true <nil>
}

// A cell every 20 milliseconds, and each up to 40 milliseconds early: three at once, and then one at a time.
func ExampleGCRA() {
	lim, clock := example()
	limit, cost := brim.GCRA(20*time.Millisecond, 40*time.Millisecond)
	for range 5 {
		st, err := lim.TryFillup(context.Background(), limit.For("port:7"), cost)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(st.Accepted, st.RetryAfter)
		clock.now = clock.now.Add(time.Millisecond)
	}
	// Output:
	// true 0s
	// true 0s
	// true 0s
	// false 17ms
	// false 16ms
}

// Clients that were refused together come back together, unless each adds a random wait of its own: "full jitter", over a
// bound that doubles.
func Example_fullJitter() {
	db, err := memory.New(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	lim, b := brim.New(db, nil), brim.Limit{Capacity: 1, LeakRate: 100}.For("k")
	enter := func(ctx context.Context) (brim.State, error) {
		bound := time.Millisecond // in a real client, a hundred of them
		for {
			st, err := lim.TryFillup(ctx, b, 1)
			if err != nil || st.Accepted || st.RetryAfter == brim.Never {
				return st, err
			}
			// Not before it fits, and then spread over the bound.
			wait := st.RetryAfter + rand.N(bound)
			bound = min(2*bound, 10*time.Second)
			select {
			case <-time.After(wait):
			case <-ctx.Done():
				return st, ctx.Err()
			}
		}
	}
	for range 3 {
		st, err := enter(context.Background())
		fmt.Println(st.Accepted, err)
	}
	// Output:
	// true <nil>
	// true <nil>
	// true <nil>
}
