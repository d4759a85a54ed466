package sqliteledger

import (
	"context"
	"database/sql"
	"embed"
	"encoding/json"
	"math"
	"time"

	"github.com/brimgo/brim/internal/clock"
	"github.com/brimgo/brim/internal/combine"
	"github.com/brimgo/brim/internal/sqliterun"
	"github.com/brimgo/brim/spend/internal/book"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/sqlite"
	"github.com/brimgo/brim/store"
)

const backend = "sqliteledger"

//go:embed sql/*.sql
var files embed.FS

// Options are the choices of [New]. A nil *Options means all defaults.
type Options struct {
	// Clock replaces the ledger's clock, for tests and for replaying logs. It must be safe for
	// concurrent use. If Clock is nil, the ledger reads the clock of the store. Whatever the clock,
	// the time of an account never runs back.
	Clock func() time.Time
}

// Ledger is a [ledger.Ledger] in a SQLite database. Any number of goroutines and processes may use
// it at once.
type Ledger struct {
	reads
	run      *sqliterun.Runner
	clock    *clock.Clock
	sql      *sqliterun.Statements
	combiner *combine.Combiner[*ledger.Job, error]
}

var _ ledger.Ledger = (*Ledger)(nil)

// New returns the ledger in the database of s. Closing the ledger leaves s open; close the ledger
// first. A store with [sqlite.Options.Relaxed] is refused with [store.ErrMisconfigured], because
// money must not be forgotten.
func New(ctx context.Context, s *sqlite.Store, o *Options) (*Ledger, error) {
	if s == nil {
		return nil, store.Wrap(backend, "new", sqliterun.Misconfigured(nil, "the store is nil; open one with sqlite.New"))
	}
	l, err := newLedger(ctx, sqliterun.Of(s).As(backend), o)
	return l, store.Wrap(backend, "new", err)
}

func newLedger(ctx context.Context, run *sqliterun.Runner, o *Options) (l *Ledger, err error) {
	if run.Relaxed {
		return nil, sqliterun.Misconfigured(nil, "the store has Relaxed, with which a power failure loses decisions; open it without")
	}
	l = &Ledger{run: run, clock: run.Clock}
	if o != nil && o.Clock != nil {
		l.clock = clock.New(clock.Options{Source: o.Clock})
	}
	l.reads = reads{l, l.read}
	if err := run.Ready(ctx); err != nil {
		return nil, err
	}
	if l.sql, err = run.Prepare(ctx, files); err != nil {
		return nil, err
	}
	l.combiner, err = sqliterun.Combiner(run, l.decide)
	return l, err
}

// decision is a job, and its own error.
type decision = combine.Request[*ledger.Job, error]

// Decide runs a job, in one transaction with others that are made at the same time. See
// [ledger.Ledger].
func (l *Ledger) Decide(ctx context.Context, job *ledger.Job) error {
	if err := l.run.Ready(ctx); err != nil {
		return l.run.Wrap("decide", err)
	}
	own, err := l.combiner.Do(ctx, 0, job)
	if err != nil {
		return l.run.Wrap("decide", err)
	}
	return own
}

// DecideAll runs jobs in one transaction. See [ledger.Ledger].
func (l *Ledger) DecideAll(ctx context.Context, jobs []*ledger.Job) []error {
	own, errs := l.combiner.DoAll(ctx, 0, jobs)
	for i, err := range errs {
		if errs[i] = own[i]; err != nil {
			errs[i] = l.run.Wrap("decide", err)
		}
	}
	return errs
}

// decide decides a batch, and commits if anything has changed.
func (l *Ledger) decide(tx *sqliterun.Tx, batch []*decision) error {
	jobs := make([]*ledger.Job, len(batch))
	for i, r := range batch {
		jobs[i] = r.In
	}
	r := newRows(l.sql.On(context.Background(), tx.Tx))
	own, err := r.decide(jobs, l.clock)
	if err != nil {
		return sqliterun.Explain(err)
	}
	for i, r := range batch {
		r.Out = own[i]
	}
	if !r.changed {
		return nil
	}
	return tx.Commit()
}

// read runs fn on one state of the database.
func (l *Ledger) read(ctx context.Context, op string, fn func(*rows) error) error {
	err := l.run.Read(ctx, func(ctx context.Context) error {
		return l.run.Snapshot(ctx, func(tx *sql.Tx) error { return fn(newRows(l.sql.On(ctx, tx))) })
	})
	return l.run.Wrap(op, err)
}

// prunePart is how many requests one statement of PruneRequests looks at.
const prunePart = 1000

// PruneRequests forgets requests, at most a thousand in each transaction, and rests between them.
// See [ledger.Ledger].
func (l *Ledger) PruneRequests(ctx context.Context, prefix string, before int64) (removed int64, err error) {
	pace := new(book.Pace)
	at, row := int64(math.MinInt64), int64(0)
	for more := true; more && err == nil; {
		if err = pace.Rest(ctx); err != nil {
			break
		}
		began := time.Now()
		var ids []int64
		err = l.run.Read(ctx, func(ctx context.Context) error {
			seen := 0
			ids = nil
			err := l.sql.On(ctx, nil).Each("old", []any{before, at, row, prunePart, prefix}, func(found *sql.Rows) (bool, error) {
				var goes bool
				err := found.Scan(&row, &at, &goes)
				if seen++; goes {
					ids = append(ids, row)
				}
				return true, err
			})
			more = seen == prunePart
			return err
		})
		pace.Worked(began)
		if err == nil && len(ids) > 0 {
			var n int64
			n, err = l.forget(ids, before, pace)
			removed += n
		}
	}
	return removed, l.run.Wrap("prune", err)
}

// forget removes requests. Since they were listed, another PruneRequests may have removed them.
func (l *Ledger) forget(ids []int64, before int64, pace *book.Pace) (n int64, err error) {
	list, err := json.Marshal(ids)
	if err != nil {
		return 0, err
	}
	tx, err := l.run.Begin()
	if err != nil {
		return 0, err
	}
	defer tx.End()
	defer pace.Worked(time.Now())
	if n, err = l.sql.On(context.Background(), tx.Tx).Exec("forget", string(list), before); err != nil {
		return 0, sqliterun.Explain(err)
	}
	return n, tx.Commit()
}

// Close refuses further calls, and returns when the decisions in flight have ended. The store stays
// open.
func (l *Ledger) Close() error {
	l.combiner.Close()
	l.run.Close()
	l.sql.Close()
	return nil
}
