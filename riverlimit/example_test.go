package riverlimit_test

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertype"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/riverlimit"
)

// Each kind of job is worked a hundred times a minute at most, in all processes together.
func Example() {
	pool, buckets := open()
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{
		Queues:     map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 10}},
		Workers:    river.NewWorkers(),
		Middleware: []rivertype.Middleware{riverlimit.New(brim.New(buckets, nil), riverlimit.PerKind(brim.Over(100, time.Minute)), nil)},
	})
	_, _ = client, err
}

// A job says in its tags whose it is, and in its metadata nothing: each customer has a bucket, and
// a large export costs more than a small one.
func ExamplePolicy() {
	perCustomer := brim.Over(1000, time.Hour)
	policy := func(job *rivertype.JobRow) (brim.Bucket, float64) {
		if job.Kind != "export" {
			return brim.Bucket{}, 0 // not limited
		}
		return perCustomer.For("exports:" + job.Tags[0]), float64(len(job.EncodedArgs))
	}
	_, buckets := open()
	// An export waits for its turn for up to ten seconds in its worker. Then it is snoozed.
	_ = riverlimit.New(brim.New(buckets, nil), policy, &riverlimit.Options{Wait: 10 * time.Second})
}

// invoice is a job.
type invoice struct {
	Customer string
	Lines    int
}

func (invoice) Kind() string { return "invoice" }

// worker writes invoices, and charges their customers for the lines.
type worker struct {
	river.WorkerDefaults[invoice]

	pool    *pgxpool.Pool
	buckets *postgres.Store
}

func (w *worker) Work(ctx context.Context, job *river.Job[invoice]) error {
	return pgx.BeginFunc(ctx, w.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "INSERT INTO invoices VALUES ($1, $2)", job.Args.Customer, job.Args.Lines); err != nil {
			return err
		}
		lines := brim.Over(10_000, 24*time.Hour).For("lines:" + job.Args.Customer)
		return riverlimit.Complete(ctx, tx, w.buckets, job, lines, float64(job.Args.Lines))
	})
}

// The invoice, its charge and the completion of its job commit together.
func ExampleComplete() {
	pool, buckets := open()
	workers := river.NewWorkers()
	river.AddWorker(workers, &worker{pool: pool, buckets: buckets})
}

// open stands for the program's own pool, and its store over it.
func open() (*pgxpool.Pool, *postgres.Store) {
	pool, err := pgxpool.New(context.Background(), "postgres:///app")
	if err != nil {
		panic(err)
	}
	buckets, err := postgres.New(pool, nil)
	if err != nil {
		panic(errors.Join(err, errors.New("run brim migrate up")))
	}
	return pool, buckets
}
