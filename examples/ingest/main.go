// Command ingest copies rows of a tenant into PostgreSQL, or into a SQLite database. Any number of
// processes may do so beside each other, and the tenant never exceeds its limit of rows.
//
//	brim migrate up --store postgres:///app
//	go run ./examples/ingest -store postgres:///app -tenant 42 -rows 10000 -way part
//
// For -store sqlite:app.db the program needs a driver of SQLite, such as _ "modernc.org/sqlite",
// which this module does not import.
//
// The flag -way chooses the fate of a batch that has no room at the moment:
//
//	refuse  it goes in as a whole or not at all; the worker comes back after RetryAfter
//	part    as many rows as fit go in, and the rest comes back after RetryAfter
//	wait    the batch waits for its turn, and no other batch overtakes it
//
// Note the order: the limit decides first, and then the rows go in. Rows that a transaction rolls
// back stay in the table until a vacuum, and a refusal before them leaves none.
//
// Note also the transaction. In the ways refuse and part, the charge and its rows commit together:
// no crash separates them. The bucket's row is locked while the rows are copied, so another process
// waits that long for the same tenant, and in SQLite for any tenant. A batch that waits for its
// turn is charged before, because nobody may wait in a transaction. A crash after the charge then
// costs the tenant those units.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/stores"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "ingest:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	flags := flag.NewFlagSet("ingest", flag.ContinueOnError)
	name := flags.String("store", "postgres:///", "postgres:// `URL` of the rows and the buckets, or sqlite:PATH")
	tenant := flags.String("tenant", "42", "`name` of the tenant")
	limit := flags.String("limit", "5000@2000", "the tenant's `limit`: rows at once, and rows a second after that")
	rows := flags.Int("rows", 10_000, "number of rows")
	size := flags.Int("batch", 500, "rows of a batch")
	way := flags.String("way", "part", "refuse, part or wait")
	if err := flags.Parse(args); err != nil {
		return err
	}
	db, err := stores.Open(ctx, *name, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	w, err := newWriter(ctx, db, *tenant, *limit)
	if err != nil {
		return err
	}
	put, ok := map[string]func(context.Context, []string) error{"refuse": w.refuse, "part": w.part, "wait": w.wait}[*way]
	switch {
	case !ok:
		return fmt.Errorf("-way %s: it must be refuse, part or wait", *way)
	case *size < 1 || float64(*size) > w.bucket.Capacity:
		return fmt.Errorf("-batch %d: it must be from 1 to %.0f, the capacity; a larger batch never fits", *size, w.bucket.Capacity)
	}
	began := time.Now()
	events := make([]string, *rows)
	for i := range events {
		events[i] = fmt.Sprintf("event %d", i)
	}
	for batch := range slices.Chunk(events, *size) {
		if err := put(ctx, batch); err != nil {
			return err
		}
	}
	fmt.Fprintf(out, "%d rows in %.1f s, %d times there was no room\n", *rows, time.Since(began).Seconds(), w.refused)
	return nil
}

// writer puts the rows of a tenant into a table.
type writer struct {
	db      *stores.Store
	limiter *brim.Limiter
	tenant  string
	bucket  brim.Bucket
	refused int
}

// newWriter makes the table where it is missing.
func newWriter(ctx context.Context, db *stores.Store, tenant, limit string) (*writer, error) {
	l, err := brim.ParseLimit(limit)
	if err != nil {
		return nil, err
	}
	w := &writer{db: db, limiter: brim.New(db, nil), tenant: tenant, bucket: l.For("tenant:" + tenant)}
	switch {
	case db.SQLite != nil:
		return w, w.makeTable(ctx)
	case db.Postgres == nil:
		return nil, errors.New("the rows need a store in PostgreSQL or SQLite: postgres://host/database or sqlite:PATH")
	}
	// Two processes that make a table at once would be in each other's way.
	_, err = db.Pool.Exec(ctx, `SELECT pg_advisory_xact_lock(7346);
		CREATE TABLE IF NOT EXISTS events (
			id bigint GENERATED ALWAYS AS IDENTITY, tenant text, body text, charged timestamptz)`)
	return w, err
}

// refuse puts a batch in as a whole.
func (w *writer) refuse(ctx context.Context, batch []string) error {
	return w.charge(ctx, batch, len(batch))
}

// part puts in as many rows of a batch as fit, until all are in.
func (w *writer) part(ctx context.Context, batch []string) error {
	return w.charge(ctx, batch, 1)
}

// charge puts a batch in by pieces of the least size, or of more where more fits. A piece may be
// smaller only if it is the last.
func (w *writer) charge(ctx context.Context, batch []string, least int) error {
	put := w.inPostgres
	if w.db.SQLite != nil {
		put = w.inSQLite
	}
	for len(batch) > 0 {
		st, err := put(ctx, batch, least)
		if err != nil {
			return fmt.Errorf("%d rows are not in: %w", len(batch), err)
		}
		batch = batch[int(st.Taken):]
		if !st.Accepted {
			w.refused++
			if err := pause(ctx, st.RetryAfter); err != nil {
				return err
			}
		}
	}
	return nil
}

// inPostgres puts a piece of a batch in, with its charge.
func (w *writer) inPostgres(ctx context.Context, batch []string, least int) (st brim.State, _ error) {
	err := pgx.BeginFunc(ctx, w.db.Pool, func(tx pgx.Tx) (err error) {
		least := float64(min(least, len(batch)))
		st, err = brim.New(w.db.Postgres.With(tx), nil).TakeUpTo(ctx, w.bucket, least, float64(len(batch)))
		if err != nil || !st.Accepted {
			return err
		}
		return copyIn(ctx, tx, w.tenant, batch[:int(st.Taken)], st.At)
	})
	return st, err
}

// wait puts a batch in when its turn has come.
func (w *writer) wait(ctx context.Context, batch []string) error {
	st, err := w.limiter.Wait(ctx, w.bucket, float64(len(batch)))
	if err != nil {
		return fmt.Errorf("%d rows are not in: %w", len(batch), err)
	}
	charged := st.At.Add(st.When(0)) // the level was above the capacity until the turn
	if w.db.SQLite != nil {
		return w.insertAlone(ctx, batch, charged)
	}
	return pgx.BeginFunc(ctx, w.db.Pool, func(tx pgx.Tx) error { return copyIn(ctx, tx, w.tenant, batch, charged) })
}

// copyIn copies rows, with the time at which the limit let them in.
func copyIn(ctx context.Context, tx pgx.Tx, tenant string, batch []string, charged time.Time) error {
	rows := pgx.CopyFromSlice(len(batch), func(i int) ([]any, error) { return []any{tenant, batch[i], charged}, nil })
	_, err := tx.CopyFrom(ctx, pgx.Identifier{"events"}, []string{"tenant", "body", "charged"}, rows)
	return err
}

// pause waits for d and up to a quarter more, so that workers that were refused together do not
// come back together.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d + rand.N(d/4+time.Millisecond)):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
