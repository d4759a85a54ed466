package brim_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/memory"
)

// Letters are sent one every 20 milliseconds, however fast they come. No letter waits longer
// than 50 milliseconds.
func ExampleShaper_Wait() {
	db := memory.New(nil)
	turns, err := brim.NewShaper(brim.New(db, nil), &brim.ShaperOptions{MaxWait: 50 * time.Millisecond})
	if err != nil {
		fmt.Println(err)
		return
	}
	mail := brim.Limit{Capacity: 100, LeakRate: 50}.For("mail")
	began := time.Now()
	for _, letter := range []string{"first", "second", "third"} {
		if _, err := turns.Wait(context.Background(), mail, 1); err != nil {
			fmt.Println(letter, err)
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

// A channel bounds a queue and keeps its order. A Shaper spaces the items.
func ExampleShaper_Wait_queue() {
	turns, err := brim.NewShaper(brim.New(memory.New(nil), nil), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	letters := make(chan string, 2) // at most so many wait
	for _, to := range []string{"alice", "bob", "carol"} {
		select {
		case letters <- to:
		default:
			fmt.Println("no room for", to)
		}
	}
	close(letters)
	for to := range letters { // in a goroutine of its own, in a program that goes on
		if _, err := turns.Wait(context.Background(), brim.Smooth(50, time.Second).For("mail"), 1); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("sent to", to)
	}
	// Output:
	// no room for carol
	// sent to alice
	// sent to bob
}

// sendFair sends a letter of a customer: at most 3 at once and one an hour for each customer, and
// all of them one every 20 milliseconds, as the post office takes them.
func sendFair(ctx context.Context, lim *brim.Limiter, turns *brim.Shaper, customer string, send func() error) error {
	return lim.Do(ctx, brim.Limit{Capacity: 3, LeakRate: 1.0 / 3600}.For("letters:"+customer), 1, func(ctx context.Context) error {
		return turns.Do(ctx, brim.Smooth(50, time.Second).For("post office"), 1, func(context.Context) error { return send() })
	})
}

// A limit at the edge refuses a customer who asks for too much, and a Shaper behind it spaces the
// letters of all.
func ExampleShaper_behindALimit() {
	db := memory.New(nil)
	lim := brim.New(db, nil)
	turns, err := brim.NewShaper(lim, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	began := time.Now()
	for _, customer := range []string{"a", "a", "a", "a", "b"} {
		err := sendFair(context.Background(), lim, turns, customer, func() error { fmt.Println("sent for", customer); return nil })
		if errors.Is(err, brim.ErrOverLimit) {
			fmt.Println("refused", customer)
		} else if err != nil {
			fmt.Println(err)
		}
	}
	fmt.Println("in 60 ms or more:", time.Since(began) >= 60*time.Millisecond)
	// Output:
	// sent for a
	// sent for a
	// sent for a
	// refused a
	// sent for b
	// in 60 ms or more: true
}

// callWithin calls an API as soon as its limit has room for the call, but waits no longer than a
// second.
func callWithin(ctx context.Context, lim *brim.Limiter, calls brim.Bucket, send func() error) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if _, err := lim.Wait(ctx, calls, 1); err != nil {
		return err // an OverLimitError at once if the call would not fit within the second
	}
	return send()
}

// Calls of an API wait for room, which comes with 50 units a second, but no longer than a second.
func ExampleLimiter_Wait() {
	db := memory.New(nil)
	lim := brim.New(db, nil)
	calls := brim.Limit{Capacity: 2, LeakRate: 50}.For("api")
	began := time.Now()
	for _, name := range []string{"first", "second", "third"} {
		err := callWithin(context.Background(), lim, calls, func() error { fmt.Println("called", name); return nil })
		if err != nil {
			fmt.Println(err)
			return
		}
	}
	fmt.Println("the third waited for room:", time.Since(began) >= 15*time.Millisecond)
	// Output:
	// called first
	// called second
	// called third
	// the third waited for room: true
}

// A caller that schedules its own work asks for the time of its turn.
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
			fmt.Println("turn at", r.Turn().Sub(clock.Now()))
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

// A queue that is longer than its callers' timeout serves nobody once it is full. CheckTimeout
// finds such a limit before callers do.
func ExampleShaper_CheckTimeout() {
	lim, _ := example()
	turns, err := brim.NewShaper(lim, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(turns.CheckTimeout(brim.Smooth(5, 10*time.Second), 2*time.Second))
	fmt.Println(turns.CheckTimeout(brim.Smooth(5, time.Second), 2*time.Second))
	// Output:
	// brim: invalid limit: the queue is up to 10s long and its callers give up after 2s; use a capacity of at most 10, or a MaxWait of at most the timeout
	// <nil>
}
