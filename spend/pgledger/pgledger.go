// Package pgledger keeps spends in PostgreSQL, beside the buckets of package postgres, for any number of processes.
//
// The tables come from package migrations, or from "brim migrate up". Decisions that are made at the same time share a
// transaction: its accounts' rows are locked in byte order of key, the clock is the server's, read when all are locked, and the
// working sets, the entries and the answers are stored in one commit. See package postgres for what a commit is worth, for
// isolation and for poolers.
package pgledger

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/internal/combine"
	"github.com/brimgo/brim/internal/pgname"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/store"
)

const backend = "pgledger"

// Defaults of [Options].
const (
	DefaultLanes     = 2
	DefaultBatchSize = 256
)

// Options adjust a [Ledger]. A nil *Options means all defaults.
type Options struct {
	// Schema and Table are those of the buckets, beside which the ledger's tables are; as given to the migrations.
	Schema, Table string
	// Lanes is how many transactions may be in flight at once, each on a connection of the pool; 0 means [DefaultLanes].
	Lanes int
	// BatchSize is the largest number of decisions in one transaction; 0 means [DefaultBatchSize].
	BatchSize int
	// StatementTimeout bounds one transaction; 0 means [postgres.DefaultStatementTimeout]. See [postgres.Options].
	StatementTimeout time.Duration
	// Clock replaces the server's clock, for tests and for replaying logs. It must be safe for concurrent use.
	Clock func() time.Time
	// Logger is told of retries; nil is silent.
	Logger *slog.Logger
}

// Ledger is a [ledger.Ledger] in PostgreSQL. It may be used by any number of goroutines and processes at once.
type Ledger struct {
	store    *postgres.Store // runs transactions, and says what errors mean
	sql      *statements     // of transactions of its own
	joined   *statements     // of a caller's
	clock    func() time.Time
	timeout  time.Duration
	seed     maphash.Seed
	combiner *combine.Combiner[*ledger.Job, struct{}]
}

var _ ledger.Ledger = (*Ledger)(nil)

type request = combine.Request[*ledger.Job, struct{}]

// New returns a ledger over the caller's pool, which stays the caller's. It sends nothing; a missing table shows in the first
// call. o may be nil.
func New(pool *pgxpool.Pool, o *Options) (*Ledger, error) {
	if o == nil {
		o = &Options{}
	}
	fail := func(err error) (*Ledger, error) { return nil, &store.Error{Backend: backend, Op: "new", Err: err} }
	names, err := pgname.New(o.Schema, o.Table)
	if err != nil {
		return fail(err)
	}
	if o.Lanes < 0 || o.BatchSize < 0 {
		return fail(errors.New("an option is negative; use 0 for its default"))
	}
	s, err := postgres.New(pool, &postgres.Options{
		Schema: o.Schema, Table: o.Table, StatementTimeout: o.StatementTimeout, Clock: o.Clock, Logger: o.Logger,
	})
	if err != nil {
		return nil, err
	}
	l := &Ledger{store: s, sql: newStatements(names, ""), joined: newStatements(names, "\n-- within a caller's transaction"), clock: o.Clock, timeout: o.StatementTimeout, seed: maphash.MakeSeed()}
	if l.timeout == 0 {
		l.timeout = postgres.DefaultStatementTimeout
	}
	lanes, batch := o.Lanes, o.BatchSize
	if lanes == 0 {
		lanes = DefaultLanes
	}
	if batch == 0 {
		batch = DefaultBatchSize
	}
	l.combiner, err = combine.New(l.flush, &combine.Options{Lanes: lanes, MaxBatch: batch})
	if err != nil {
		return fail(err)
	}
	return l, nil
}

// Decide runs a job, in one transaction with others that are made at the same time. See [ledger.Ledger].
func (l *Ledger) Decide(ctx context.Context, job *ledger.Job) error {
	if l == nil {
		return store.Wrap(backend, "decide", store.ErrClosed)
	}
	about := job.SpendID // decisions about one thing meet in one lane, and do not wait for each other's locks
	if len(job.Accounts) > 0 {
		about = job.Accounts[0]
	}
	_, err := l.combiner.Do(ctx, maphash.String(l.seed, about), job)
	if own := (jobError{}); errors.As(err, &own) {
		return own.error
	}
	return store.Wrap(backend, "decide", err)
}

// jobError is what a job answered: it failed alone.
type jobError struct{ error }

func (e jobError) Unwrap() error { return e.error }

// flush decides a batch in one transaction. What the server refuses as a whole is decided one by one, so that what it chokes on
// fails alone.
func (l *Ledger) flush(_ int, batch []*request) {
	ctx, cancel := context.WithTimeout(context.Background(), l.timeout)
	defer cancel()
	refusal, err := l.transact(ctx, batch)
	if err != nil && refusal && len(batch) > 1 {
		for i := range batch {
			_, err := l.transact(ctx, batch[i:i+1])
			batch[i].Err = firstOf(err, batch[i].Err)
		}
		return
	}
	for _, r := range batch {
		r.Err = firstOf(err, r.Err)
	}
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// repeats is how often a batch is decided again because somebody else has used one of its IDs meanwhile, for another account.
const repeats = 3

func (l *Ledger) transact(ctx context.Context, batch []*request) (refusal bool, err error) {
	jobs := make([]*ledger.Job, len(batch))
	for i, r := range batch {
		jobs[i] = r.In
	}
	return l.store.Transact(ctx, func(ctx context.Context, conn *pgxpool.Conn) error {
		for n := 0; ; n++ {
			f := l.newFlight(conn, true)
			errs, err := f.decide(ctx, jobs)
			if err != nil && isDuplicate(err) && n < repeats {
				if _, err := conn.Exec(ctx, "ROLLBACK"); err != nil {
					return err
				}
				continue
			}
			for i, r := range batch {
				if r.Err = nil; errs != nil && errs[i] != nil {
					r.Err = jobError{errs[i]}
				}
			}
			return err
		}
	})
}

// View runs a job on one state of the database. See [ledger.Ledger].
func (l *Ledger) View(ctx context.Context, job *ledger.Job) error {
	if l == nil {
		return store.Wrap(backend, "view", store.ErrClosed)
	}
	var own error
	err := l.store.Ask(ctx, func(conn *pgxpool.Conn) (err error) {
		own, err = l.newFlight(conn, true).view(ctx, job)
		return err
	})
	return firstOf(store.Wrap(backend, "view", err), own)
}

// History lists entries, newest first. See [ledger.Ledger].
func (l *Ledger) History(ctx context.Context, account string, before ledger.Position, limit int) (list []ledger.Entry, err error) {
	if l == nil {
		return nil, store.Wrap(backend, "history", store.ErrClosed)
	}
	err = l.store.Ask(ctx, func(conn *pgxpool.Conn) (err error) {
		list, err = l.history(ctx, conn, account, before, limit)
		return err
	})
	return list, store.Wrap(backend, "history", err)
}

// Accounts lists accounts. See [ledger.Ledger].
func (l *Ledger) Accounts(ctx context.Context, prefix, after string, limit int) (list []ledger.Account, err error) {
	if l == nil {
		return nil, store.Wrap(backend, "accounts", store.ErrClosed)
	}
	err = l.store.Ask(ctx, func(conn *pgxpool.Conn) (err error) {
		list, err = l.list(ctx, conn, prefix, after, limit)
		return err
	})
	return list, store.Wrap(backend, "accounts", err)
}

// PruneRequests forgets requests, in one statement. See [ledger.Ledger].
func (l *Ledger) PruneRequests(ctx context.Context, prefix string, before int64) (removed int64, err error) {
	if l == nil {
		return 0, store.Wrap(backend, "prune", store.ErrClosed)
	}
	_, err = l.store.Transact(ctx, func(ctx context.Context, conn *pgxpool.Conn) error {
		tag, err := conn.Exec(ctx, l.sql.forget, prefix, timestamp(before))
		removed = tag.RowsAffected()
		return err
	})
	return removed, store.Wrap(backend, "prune", err)
}

// Close refuses further decisions and waits for those in flight. The pool stays open.
func (l *Ledger) Close() error {
	if l == nil {
		return store.Wrap(backend, "close", store.ErrClosed)
	}
	l.combiner.Close()
	return l.store.Close()
}

// With returns the ledger within the caller's transaction: a spend commits or rolls back with the rows that it pays for, and
// nothing is approved before the transaction commits. The accounts stay locked until it ends, so decide late and commit soon;
// at REPEATABLE READ and above the server may answer with a serialization failure. Like tx it is for one goroutine at a time.
// After an error roll tx back. Close does nothing.
func (l *Ledger) With(tx pgx.Tx) ledger.Ledger { return &joined{l: l, tx: tx} }

// joined is a ledger within somebody else's transaction.
type joined struct {
	l  *Ledger
	tx pgx.Tx
}

func (j *joined) run(ctx context.Context, op string, f func() error) error {
	if j.tx == nil {
		return store.Wrap(backend, op, store.ErrClosed)
	}
	if err := ctx.Err(); err != nil {
		return store.Wrap(backend, op, err)
	}
	return store.Wrap(backend, op, j.l.store.Explain(ctx, f()))
}

func (j *joined) Decide(ctx context.Context, job *ledger.Job) error {
	var own error
	err := j.run(ctx, "decide", func() error {
		errs, err := j.l.newFlight(j.tx, false).decide(ctx, []*ledger.Job{job})
		if errs != nil {
			own = errs[0]
		}
		if isDuplicate(err) {
			return fmt.Errorf("%w: somebody else has just used the ID; roll back and decide again", store.ErrUnavailable)
		}
		return err
	})
	return firstOf(err, own)
}

func (j *joined) View(ctx context.Context, job *ledger.Job) error {
	var own error
	err := j.run(ctx, "view", func() (err error) {
		own, err = j.l.newFlight(j.tx, false).view(ctx, job)
		return err
	})
	return firstOf(err, own)
}

func (j *joined) History(ctx context.Context, account string, before ledger.Position, limit int) (list []ledger.Entry, err error) {
	err = j.run(ctx, "history", func() (err error) {
		list, err = j.l.history(ctx, j.tx, account, before, limit)
		return err
	})
	return list, err
}

func (j *joined) Accounts(ctx context.Context, prefix, after string, limit int) (list []ledger.Account, err error) {
	err = j.run(ctx, "accounts", func() (err error) {
		list, err = j.l.list(ctx, j.tx, prefix, after, limit)
		return err
	})
	return list, err
}

func (j *joined) PruneRequests(ctx context.Context, prefix string, before int64) (removed int64, err error) {
	err = j.run(ctx, "prune", func() error {
		tag, err := j.tx.Exec(ctx, j.l.sql.forget, prefix, timestamp(before))
		removed = tag.RowsAffected()
		return err
	})
	return removed, err
}

// Close does nothing: the transaction belongs to somebody else.
func (j *joined) Close() error { return nil }
