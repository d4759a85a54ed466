package frameworks

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	"github.com/riverqueue/river/rivertype"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/lab/internal/pgstore"
	"github.com/brimgo/brim/postgres"
)

// letter is a job.
type letter struct {
	To string `json:"to"`
}

func (letter) Kind() string { return "letter" }

// TestJobLimitErrors sees that a job that never fits is cancelled, and that a job is not worked
// if the limit cannot be checked.
func TestJobLimitErrors(t *testing.T) {
	l := &JobLimit{Limiter: limiter(t), Limit: brim.Limit{Capacity: 1}, Key: func(*rivertype.JobRow) string { return "k" }, Jitter: 1}
	worked := 0
	work := func() error {
		return l.Work(t.Context(), &rivertype.JobRow{}, func(context.Context) error { worked++; return nil })
	}
	if err := work(); err != nil || worked != 1 {
		t.Errorf("%v; want the first job worked", err)
	}
	if cancel := (*rivertype.JobCancelError)(nil); !errors.As(work(), &cancel) {
		t.Error("a job without room in a bucket that does not leak is not cancelled")
	}
	l.Limiter = brim.New(nil, nil)
	if err := work(); !errors.Is(err, brim.ErrClosed) || worked != 1 {
		t.Errorf("without a store: %v, %d jobs worked", err, worked)
	}
}

// TestJobLimit has River work jobs of two tenants, whose buckets take two jobs and one. The
// others are snoozed until their buckets have room, and nothing is worked twice.
func TestJobLimit(t *testing.T) {
	ctx := t.Context()
	pool, buckets := pgstore.New(t, postgres.Options{})
	driver := riverpgxv5.New(pool)
	migrator, err := rivermigrate.New(driver, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		t.Fatal(err)
	}
	lim := brim.New(buckets, nil)
	perTenant := brim.Limit{Capacity: 2, LeakRate: 1.0 / 3600}
	// One of bob's units is used already.
	if _, err := lim.TryFillup(ctx, perTenant.For("bob"), 1); err != nil {
		t.Fatal(err)
	}
	var worked atomic.Int64
	workers := river.NewWorkers()
	river.AddWorker(workers, river.WorkFunc(func(context.Context, *river.Job[letter]) error { worked.Add(1); return nil }))
	client, err := river.NewClient(driver, &river.Config{
		Queues:  map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 10}},
		Workers: workers,
		Middleware: []rivertype.Middleware{&JobLimit{
			Limiter: lim, Limit: perTenant, Jitter: time.Minute, Key: func(job *rivertype.JobRow) string { return job.Tags[0] },
		}},
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	events, unsubscribe := client.Subscribe(river.EventKindJobCompleted, river.EventKindJobSnoozed)
	defer unsubscribe()
	begin := time.Now()
	for _, tenant := range []string{"alice", "bob", "alice", "bob", "alice"} {
		if _, err := client.Insert(ctx, letter{To: tenant}, &river.InsertOpts{Tags: []string{tenant}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := client.Start(ctx); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := client.Stop(context.WithoutCancel(ctx)); err != nil {
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
		wait := e.Job.ScheduledAt.Sub(begin)
		if wait < 59*time.Minute || wait > 63*time.Minute {
			t.Errorf("a job is snoozed for %v; want an hour and up to a minute", wait)
		}
	}
	want := map[string]int{"job_completed alice": 2, "job_snoozed alice": 1, "job_completed bob": 1, "job_snoozed bob": 1}
	for what, n := range want {
		if done[what] != n {
			t.Errorf("%s: %d, want %d; all: %v", what, done[what], n, done)
		}
	}
	if worked.Load() != 3 {
		t.Errorf("%d jobs were worked; want 3", worked.Load())
	}
}
