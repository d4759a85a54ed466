// Command chargedinsert inserts a batch of rows into PostgreSQL, and charges a tenant's bucket
// for them in the same transaction.
//
//	go run ./examples/chargedinsert -database postgres://... -tenant 42 -rows 250
//
// Note the place of the charge: last before the commit. The rows are inserted and charged
// together or not at all. No crash, lost connection or retry can separate the two. The row of the
// bucket is locked from the charge until the transaction ends. Because the charge comes last,
// other callers of the tenant do not wait for the insert.
//
// Note also the call of AbleToAccept before the transaction. The rows of a transaction that is
// rolled back stay in the table until a vacuum. AbleToAccept writes nothing, so a batch that has no
// room leaves nothing behind. Only the charge decides: others may take the room after the answer.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/migrations"
	"github.com/brimgo/brim/postgres"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "chargedinsert:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	flags := flag.NewFlagSet("chargedinsert", flag.ContinueOnError)
	database := flags.String("database", "postgres:///", "connection string of the database")
	schema := flags.String("schema", "chargedinsert", "schema of the events and the buckets")
	tenant := flags.String("tenant", "42", "tenant that inserts")
	rows := flags.Int("rows", 100, "number of rows to insert")
	if err := flags.Parse(args); err != nil {
		return err
	}
	pool, err := pgxpool.New(ctx, *database)
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := migrations.Up(ctx, pool, &migrations.Options{Schema: *schema}); err != nil {
		return err
	}
	db, err := postgres.New(pool, &postgres.Options{Schema: *schema})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := db.Ping(ctx); err != nil { // a missing right shows here, and not in the first charge
		return err
	}

	w := &writer{
		pool: pool, buckets: db, limiter: brim.New(db, nil),
		table: pgx.Identifier{*schema, "events"},
		limit: brim.Over(1000, time.Hour), // a thousand rows at once, then a thousand per hour
	}
	if err := w.createTable(ctx); err != nil {
		return err
	}
	switch st, err := w.insert(ctx, *tenant, *rows); {
	case errors.Is(err, errOverLimit) && st.RetryAfter >= brim.Never:
		fmt.Fprintf(out, "refused: %d rows can never fit; insert at most %.0f at a time\n", *rows, st.Capacity)
	case errors.Is(err, errOverLimit):
		fmt.Fprintf(out, "refused: come back in %v\n", st.RetryAfter.Round(time.Second))
	case err != nil:
		return err
	default:
		fmt.Fprintf(out, "inserted %d rows; room for %.0f more\n", *rows, st.Remaining())
	}
	return nil
}

// writer inserts events, and charges for them.
type writer struct {
	pool    *pgxpool.Pool
	buckets *postgres.Store
	limiter *brim.Limiter // over buckets
	table   pgx.Identifier
	limit   brim.Limit
}

// errOverLimit means that a batch has no room. In a transaction it rolls the rows back.
var errOverLimit = errors.New("over the limit")

// insert inserts n rows and charges for them, or does neither.
func (w *writer) insert(ctx context.Context, tenant string, n int) (st brim.State, err error) {
	bucket := w.limit.For("tenant:" + tenant)
	if st, err = w.limiter.AbleToAccept(ctx, bucket, float64(n)); err != nil {
		return st, err
	}
	if !st.Accepted {
		return st, errOverLimit // nothing is inserted, so a vacuum has nothing to remove
	}
	err = pgx.BeginFunc(ctx, w.pool, func(tx pgx.Tx) error {
		if _, err := tx.CopyFrom(ctx, w.table, []string{"tenant", "body"}, events(tenant, n)); err != nil {
			return err
		}
		lim := brim.New(w.buckets.With(tx), nil)
		if st, err = lim.TryFillup(ctx, bucket, float64(n)); err != nil {
			return err
		}
		if !st.Accepted {
			return errOverLimit
		}
		return nil
	})
	return st, err
}

// events returns n rows.
func events(tenant string, n int) pgx.CopyFromSource {
	return pgx.CopyFromSlice(n, func(i int) ([]any, error) { return []any{tenant, fmt.Sprintf("event %d", i)}, nil })
}

// createTable creates the table of events if it does not exist.
func (w *writer) createTable(ctx context.Context) error {
	_, err := w.pool.Exec(ctx, `CREATE TABLE IF NOT EXISTS `+w.table.Sanitize()+` (
		id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, tenant text NOT NULL, body text NOT NULL)`)
	return err
}
