// Command batchinsert inserts batches of rows no faster than a limit allows. The cost of a batch
// is its number of rows.
//
//	go run ./examples/batchinsert
//	go run ./examples/batchinsert -store limits.db -rows 500
//
// Note three things. A batch larger than the capacity can never fit, so the program splits it
// first, by the same limit. After a refusal the program waits for RetryAfter, and does not poll.
// If the store fails, the program stops, because the limit protects a database that must not be
// flooded. With -store the limit holds over several runs: start the program twice in a row.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/bolt"
	"github.com/brimgo/brim/memory"
	"github.com/brimgo/brim/store"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "batchinsert:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	flags := flag.NewFlagSet("batchinsert", flag.ContinueOnError)
	path := flags.String("store", "", "bbolt `file` of the bucket; the default is memory")
	rows := flags.Int("rows", 1000, "number of rows to insert")
	capacity := flags.Float64("capacity", 300, "rows that may be inserted at once")
	rate := flags.Float64("rate", 2000, "rows per second after that")
	if err := flags.Parse(args); err != nil {
		return err
	}
	db, err := open(*path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()

	in := &inserter{
		lim:    brim.New(db, nil),
		bucket: brim.Limit{Capacity: *capacity, LeakRate: *rate}.For("table:events"),
		table:  &table{},
		out:    out,
	}
	start := time.Now()
	// Most batches have 120 rows, and every fourth is a very large one.
	for i := 0; *rows > 0; i++ {
		size := 120
		if i%4 == 1 {
			size = 700
		}
		size = min(size, *rows)
		*rows -= size
		if err := in.insert(ctx, make([]row, size)); err != nil {
			return err
		}
	}
	fmt.Fprintf(out, "%d rows in %d inserts and %.1f s\n", in.table.rows, in.table.inserts, time.Since(start).Seconds())
	return nil
}

// open opens the file at path, or a store in memory if path is "".
func open(path string) (store.Store, error) {
	if path == "" {
		return memory.New(nil), nil
	}
	return bolt.Open(path, nil)
}

// row and table stand for the database.
type (
	row   struct{}
	table struct{ rows, inserts int }
)

func (t *table) insert(rows []row) error {
	t.rows += len(rows)
	t.inserts++
	return nil
}

// inserter puts rows into a table within a limit.
type inserter struct {
	lim    *brim.Limiter
	bucket brim.Bucket
	table  *table
	out    io.Writer
}

// insert inserts a batch of any size, in parts that fit the capacity.
func (in *inserter) insert(ctx context.Context, batch []row) error {
	if !(in.bucket.Capacity >= 1) {
		return errors.New("a capacity under one row admits no row")
	}
	for part := range slices.Chunk(batch, int(min(in.bucket.Capacity, float64(len(batch))))) {
		if err := in.wait(ctx, float64(len(part))); err != nil {
			return err
		}
		if err := in.table.insert(part); err != nil {
			return err
		}
	}
	return nil
}

// wait waits until n rows fit, and takes them from the limit.
func (in *inserter) wait(ctx context.Context, n float64) error {
	for {
		st, err := in.lim.TryFillup(ctx, in.bucket, n)
		switch {
		case err != nil:
			return fmt.Errorf("the limit gives no answer, so no more rows are inserted: %w", err)
		case st.Accepted:
			return nil
		case st.RetryAfter >= brim.Never:
			return fmt.Errorf("%v rows never fit a capacity of %v", n, st.Capacity)
		}
		fmt.Fprintf(in.out, "%v rows: %.0f of %.0f are in use, waiting %v\n", n, st.Level, st.Capacity,
			st.RetryAfter.Round(time.Millisecond))
		select {
		case <-time.After(st.RetryAfter):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
