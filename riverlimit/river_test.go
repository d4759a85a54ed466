package riverlimit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	"github.com/riverqueue/river/rivertype"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/migrations"
	"github.com/brimgo/brim/postgres"
)

// letter is a job.
type letter struct {
	To string `json:"to"`
}

func (letter) Kind() string { return "letter" }

// database makes the tables of River and of brim in a schema of their own, and returns a pool whose
// connections begin there.
func database(t *testing.T) (pool *pgxpool.Pool, url, schema string) {
	t.Helper()
	schema = pgtest.Schema(t)
	url = pgtest.With(t, "search_path="+schema)
	pool = pgtest.PoolAt(t, url)
	if err := migrations.Up(t.Context(), pool, &migrations.Options{Schema: schema}); err != nil {
		t.Fatal(err)
	}
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := migrator.Migrate(t.Context(), rivermigrate.DirectionUp, nil); err != nil {
		t.Fatal(err)
	}
	return pool, url, schema
}

func buckets(pool *pgxpool.Pool, schema string) (*postgres.Store, error) {
	return postgres.New(pool, &postgres.Options{Schema: schema})
}

var silent = slog.New(slog.NewTextHandler(io.Discard, nil))

// TestSnoozed has River work jobs of two tenants, whose buckets take two jobs and one. The others
// are snoozed until their buckets have room, without an attempt, and nothing is worked twice.
func TestSnoozed(t *testing.T) {
	pool, _, schema := database(t)
	store, err := buckets(pool, schema)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	lim, perTenant := brim.New(store, nil), brim.Limit{Capacity: 2, LeakRate: 1.0 / 3600}
	if _, err := lim.TryFillup(t.Context(), perTenant.For("bob"), 1); err != nil { // one of bob's units is used already
		t.Fatal(err)
	}
	workers := river.NewWorkers()
	river.AddWorker(workers, river.WorkFunc(func(context.Context, *river.Job[letter]) error { return nil }))
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{
		Queues:  map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 10}},
		Workers: workers, Logger: silent,
		Middleware: []rivertype.Middleware{New(lim, func(job *rivertype.JobRow) (brim.Bucket, float64) {
			return perTenant.For(job.Tags[0]), 1
		}, &Options{Jitter: time.Minute})},
	})
	if err != nil {
		t.Fatal(err)
	}
	events, unsubscribe := client.Subscribe(river.EventKindJobCompleted, river.EventKindJobSnoozed)
	defer unsubscribe()
	began := time.Now()
	for _, tenant := range []string{"alice", "bob", "alice", "bob", "alice"} {
		if _, err := client.Insert(t.Context(), letter{To: tenant}, &river.InsertOpts{Tags: []string{tenant}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := client.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := client.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	}()
	done := map[string]int{}
	for range 5 {
		e := <-events
		done[string(e.Kind)+" "+e.Job.Tags[0]]++
		if e.Kind != river.EventKindJobSnoozed {
			continue
		}
		if wait := e.Job.ScheduledAt.Sub(began); wait < 59*time.Minute || wait > 63*time.Minute || e.Job.Attempt != 0 {
			t.Errorf("a job is snoozed for %v and has %d attempts; want an hour, up to a minute more, and none", wait, e.Job.Attempt)
		}
	}
	want := map[string]int{"job_completed alice": 2, "job_snoozed alice": 1, "job_completed bob": 1, "job_snoozed bob": 1}
	for event, n := range want {
		if done[event] != n {
			t.Errorf("%s: %d, want %d; all: %v", event, done[event], n, done)
		}
	}
}

// The environment of a process that works letters: the URL of the database, the schema, and the
// name of the process.
const (
	envWorker = "RIVERLIMIT_WORKER"
	envSchema = "RIVERLIMIT_SCHEMA"
	envName   = "RIVERLIMIT_NAME"
)

// perSecond is the limit of the letters.
var perSecond = brim.Limit{Capacity: 10, LeakRate: 20}

// workJobs is the program of a process that works letters with four workers until it is killed.
func workJobs() int {
	err := func() error {
		ctx := context.Background()
		pool, err := pgxpool.New(ctx, os.Getenv(envWorker))
		if err != nil {
			return err
		}
		store, err := buckets(pool, os.Getenv(envSchema))
		if err != nil {
			return err
		}
		workers := river.NewWorkers()
		river.AddWorker(workers, river.WorkFunc(func(ctx context.Context, job *river.Job[letter]) error {
			return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
				if err := Complete(ctx, tx, store, job, perSecond.For("letters"), 1); err != nil {
					return err
				}
				// The time of the charge: a letter that notes the clock afterwards may come late.
				_, err := tx.Exec(ctx, "INSERT INTO sent SELECT $1, atime FROM "+
					pgx.Identifier{os.Getenv(envSchema), "buckets"}.Sanitize()+" WHERE key = 'letters'", job.ID)
				return err
			})
		}))
		client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{
			ID: os.Getenv(envName), Workers: workers, Logger: silent,
			Queues:            map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 4}},
			FetchPollInterval: 100 * time.Millisecond,
		})
		if err != nil {
			return err
		}
		if err := client.Start(ctx); err != nil {
			return err
		}
		select {}
	}()
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// TestKilled has two processes with four workers each send letters, kills one of them in the
// middle, and starts it anew. Each letter is sent and charged once, and no window of the times of
// their charges has more than the limit admits.
func TestKilled(t *testing.T) {
	const jobs = 80
	pool, url, schema := database(t)
	mustExec(t, pool, "CREATE TABLE sent (job bigint, at timestamptz)")
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{Logger: silent})
	if err != nil {
		t.Fatal(err)
	}
	params := make([]river.InsertManyParams, jobs)
	for i := range params {
		params[i].Args = letter{To: fmt.Sprint(i)}
	}
	if _, err := client.InsertMany(t.Context(), params); err != nil {
		t.Fatal(err)
	}
	start := func(name string) (kill func()) {
		program := exec.Command(os.Args[0])
		program.Env = append(os.Environ(), envWorker+"="+url, envSchema+"="+schema, envName+"="+name)
		program.Stderr = os.Stderr
		if err := program.Start(); err != nil {
			t.Fatal(err)
		}
		return func() {
			_ = program.Process.Kill()
			if err := program.Wait(); err == nil || program.ProcessState.Exited() {
				t.Errorf("process %s ended by itself: %v", name, err)
			}
		}
	}
	defer start("a")()
	killB := start("b")
	await(t, pool, jobs/3)
	killB()
	// River rescues the jobs of a dead process after an hour. This does the same at once.
	mustExec(t, pool, "UPDATE river_job SET state = 'available' WHERE state = 'running' AND attempted_by[cardinality(attempted_by)] = 'b'")
	defer start("c")()
	await(t, pool, jobs)

	var at, first time.Time
	n, least := 0, math.Inf(1) // the least of the letters before less those that had leaked
	rows, err := pool.Query(t.Context(), "SELECT at FROM sent ORDER BY at")
	if err != nil {
		t.Fatal(err)
	}
	_, err = pgx.ForEachRow(rows, []any{&at}, func() error {
		if n == 0 {
			first = at
		}
		leaked := perSecond.LeakRate * at.Sub(first).Seconds()
		least = min(least, float64(n)-leaked)
		n++
		if over := float64(n) - leaked - least; over > perSecond.Capacity+1e-6 {
			return fmt.Errorf("a window that ends %v after the first letter has %v letters beyond those that leak in it", at.Sub(first), over)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	var different, tried int
	const sql = "SELECT (SELECT count(DISTINCT job) FROM sent), (SELECT count(*) FROM river_job WHERE state = 'completed')"
	if err := pool.QueryRow(t.Context(), sql).Scan(&different, &tried); err != nil {
		t.Fatal(err)
	}
	if n != jobs || different != jobs || tried != jobs {
		t.Errorf("%d letters are sent, %d different ones, and %d jobs completed; want %d each", n, different, tried, jobs)
	}
}

// await waits until n letters are sent.
func await(t *testing.T, pool *pgxpool.Pool, n int) {
	t.Helper()
	sent := 0
	for until := time.Now().Add(time.Minute); sent < n; time.Sleep(10 * time.Millisecond) {
		if err := pool.QueryRow(t.Context(), "SELECT count(*) FROM sent").Scan(&sent); err != nil {
			t.Fatal(err)
		}
		if time.Now().After(until) {
			t.Fatalf("%d letters are sent after a minute, want %d", sent, n)
		}
	}
}

func mustExec(t *testing.T, pool *pgxpool.Pool, sql string) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
}

// TestCompleteNever sees that a job that can never fit is cancelled, and its rows are rolled back.
func TestCompleteNever(t *testing.T) {
	pool, _, schema := database(t)
	store, err := buckets(pool, schema)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	err = pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		return Complete(t.Context(), tx, store, &river.Job[letter]{JobRow: &rivertype.JobRow{}}, perSecond.For("letters"), 11)
	})
	if _, ok := errors.AsType[*rivertype.JobCancelError](err); !ok {
		t.Errorf("%v, want a JobCancelError", err)
	}
	if over, ok := errors.AsType[*brim.OverLimitError](err); !ok || over.State.Capacity != perSecond.Capacity {
		t.Errorf("%v, want an OverLimitError inside", err)
	}
}
