// Command shaper lets many callers wait for their turns at once, and measures how evenly the
// turns come.
//
//	go run ./examples/shaper
//	go run ./examples/shaper -store shaper.db -waiters 300 -rate 100
//
// Note that the callers share a bucket and nothing else. No caller knows of another, and no list
// of callers exists. A caller that gives up early (-cancel) frees its turn only if no other
// caller has come behind it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/bolt"
	"github.com/brimgo/brim/memory"
	"github.com/brimgo/brim/store"
)

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "shaper:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	flags := flag.NewFlagSet("shaper", flag.ContinueOnError)
	path := flags.String("store", "", "bbolt `file` of the bucket; the default is memory")
	waiters := flags.Int("waiters", 100, "number of callers")
	rate := flags.Float64("rate", 200, "turns per second")
	cancel := flags.Float64("cancel", 0, "share of the callers that give up")
	if err := flags.Parse(args); err != nil {
		return err
	}
	db, err := open(*path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	turns, err := brim.NewShaper(brim.New(db, nil), nil)
	if err != nil {
		return err
	}
	queue := brim.Limit{Capacity: float64(*waiters) + 1, LeakRate: *rate}.For("turns")

	whole := time.Duration(float64(*waiters) / *rate * float64(time.Second))
	var mu sync.Mutex
	var released []time.Time
	var failed error
	var wg sync.WaitGroup
	for range *waiters {
		patience := 2*whole + time.Second
		if rand.Float64() < *cancel {
			patience = rand.N(whole + 1)
		}
		wg.Go(func() {
			ctx, giveUp := context.WithCancel(ctx)
			defer time.AfterFunc(patience, giveUp).Stop()
			defer giveUp()
			_, err := turns.Wait(ctx, queue, 1)
			now := time.Now()
			mu.Lock()
			defer mu.Unlock()
			switch {
			case errors.Is(err, context.Canceled):
			case err != nil:
				failed = err
			default:
				released = append(released, now)
			}
		})
	}
	wg.Wait()
	if failed != nil {
		return failed
	}
	return report(out, released, time.Duration(float64(time.Second) / *rate))
}

// open opens the file at path, or a store in memory if path is "".
func open(path string) (store.Store, error) {
	if path == "" {
		return memory.New(nil), nil
	}
	return bolt.Open(path, nil)
}

// report prints how evenly the turns came. want is the time between two turns.
func report(out io.Writer, released []time.Time, want time.Duration) error {
	if len(released) < 2 {
		return fmt.Errorf("%d callers had a turn; it takes two to measure", len(released))
	}
	slices.SortFunc(released, time.Time.Compare)
	var off []time.Duration
	for i := 1; i < len(released); i++ {
		off = append(off, (released[i].Sub(released[i-1]) - want).Abs())
	}
	slices.Sort(off)
	at := func(share float64) time.Duration { return off[int(share*float64(len(off)-1))].Round(time.Microsecond) }
	_, err := fmt.Fprintf(out,
		"%d turns in %v, %v apart; off by %v at the median, %v at the 95th percentile, %v at most\n",
		len(released), released[len(released)-1].Sub(released[0]).Round(time.Millisecond), want, at(0.5),
		at(0.95), at(1))
	return err
}
