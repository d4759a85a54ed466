// Command scale measures brim over Redis where one server is not enough, and where it has other
// users.
//
//	go run ./scale cost
//	go run ./scale beside
//
// The first form spreads 100,000 buckets over one, two and three primaries of a cluster, and
// prints the CPU time that a decision costs the servers and the client. With all of them on one
// machine the sum of the decisions does not grow; the costs tell where it ends on more machines.
//
// The second form has another process send GET 1,000 times a second to a server, while brim or
// redis_rate decides on the same server, or on another server of this machine. The latter takes the
// same CPU time from the GETs, and never stands before them in the server's queue.
//
// The command starts the servers. Subjects take turns.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/internal/duration"
	"github.com/brimgo/brim/internal/load"
	"github.com/brimgo/brim/internal/table"
	"github.com/brimgo/brim/redisstore"
)

const (
	keyCount    = 100_000
	connections = 64
)

// limit is that of all buckets. They are never full.
var limit = brim.Limit{Capacity: 1e12, LeakRate: 1e6}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	if addr := os.Getenv(probeEnv); addr != "" {
		err = answer(ctx, addr, os.Stdin, os.Stdout)
	} else {
		err = run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	}
	if err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "scale:", err)
		}
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("scale", flag.ContinueOnError)
	flags.SetOutput(stderr)
	length := duration.Value(2 * time.Second)
	flags.Var(&length, "for", "length of a turn, from 100ms to 1m")
	rounds := flags.Int("rounds", 5, "number of turns of each subject, from 1 to 100")
	batch := flags.Int("batch", 0, "Options.BatchSize of the store; 0 is its default")
	if err := flags.Parse(args); err != nil {
		return err
	}
	switch {
	case flags.NArg() != 1:
		return errors.New(`name one measurement, "cost" or "beside"; see -help`)
	case length.Std() < 100*time.Millisecond || length.Std() > time.Minute:
		return fmt.Errorf("-for is %v; it must be from 100ms to 1m", length.Std())
	case *rounds < 1 || *rounds > 100:
		return fmt.Errorf("-rounds is %d; it must be from 1 to 100", *rounds)
	}
	var t *table.Table
	var err error
	switch flags.Arg(0) {
	case "cost":
		t, err = cost(ctx, length.Std(), *rounds, *batch)
	case "beside":
		t, err = beside(ctx, length.Std(), *rounds, *batch)
	default:
		return fmt.Errorf(`%q is no measurement; name "cost" or "beside"`, flags.Arg(0))
	}
	if err != nil {
		return err
	}
	_, err = io.WriteString(stdout, t.Markdown())
	return err
}

// decider returns a function that asks for one unit of a bucket, and a function that closes its
// store.
func decider(client redis.UniversalClient, batch int, keys []string) (decide decideFunc, closeStore func() error, err error) {
	s, err := redisstore.New(client, &redisstore.Options{BatchSize: batch})
	if err != nil {
		return nil, nil, err
	}
	lim := brim.New(s, nil)
	return func(ctx context.Context, key int, _ bool) (bool, error) {
		st, err := lim.TryFillup(ctx, limit.For(keys[key]), 1)
		return st.Accepted, err
	}, s.Close, nil
}

type decideFunc func(ctx context.Context, key int, full bool) (bool, error)

// warm fills each bucket once.
func (decide decideFunc) warm(ctx context.Context) error {
	order := make(load.Order, keyCount)
	for i := range order {
		order[i] = int32(i)
	}
	_, err := load.Run(ctx, load.Options{Callers: 256, For: time.Second, Order: order, Decide: decide})
	return err
}

func names(n int) (keys []string) {
	for i := range n {
		keys = append(keys, "key"+strconv.Itoa(i))
	}
	return keys
}

// number formats a figure with three digits.
func number(v float64) string {
	switch {
	case v >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case v >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}
