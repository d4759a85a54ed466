package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"slices"

	"github.com/brimgo/brim/internal/combine"
	"github.com/brimgo/brim/internal/pruner"
	"github.com/brimgo/brim/internal/records"
	"github.com/brimgo/brim/internal/sqliterun"
	"github.com/brimgo/brim/store"
)

const backend = "sqlite"

//go:embed sql/*.sql
var files embed.FS

// Store keeps buckets in a table of a SQLite database. It implements [store.Store]. Any number of
// goroutines and processes may use it at once.
//
// After an error other than [store.ErrUnknownOutcome] nothing was applied. If a context ends while
// its call is queued, the call is taken back. If a context ends while the call's flush is under
// way, the call answers [store.ErrUnknownOutcome].
type Store struct {
	shared   // for ledgers
	run      *sqliterun.Runner
	db       *sql.DB
	options  Options
	sql      *sqliterun.Statements
	combiner *combine.Combiner[records.Request, records.Answer]
	pruner   *pruner.Pruner
	refusals *records.Refusals
}

type shared = sqliterun.Shared

var _ store.Store = (*Store)(nil)

// New puts buckets into tables of db, which it makes unless Options.NoMigrate is set. Close ends
// the store and leaves db open; the application closes db afterwards.
//
// A database in memory needs a pool of one connection. A database with another encoding than UTF-8,
// a second driver for a file that this process has open already, missing tables and an option out
// of its range are [store.ErrMisconfigured].
func New(ctx context.Context, db *sql.DB, o *Options) (*Store, error) {
	s, err := newStore(ctx, db, o)
	return s, store.Wrap(backend, "new", err)
}

func newStore(ctx context.Context, db *sql.DB, o *Options) (*Store, error) {
	full, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Store{db: db, options: full, refusals: records.NewRefusals()}
	if s.run, err = sqliterun.New(ctx, db, backend, !full.NoMigrate, full.runner()); err != nil {
		return nil, err
	}
	s.shared = s.run.Share()
	if s.sql, err = s.run.Prepare(ctx, files); err == nil {
		s.combiner, err = sqliterun.Combiner(s.run, s.flush)
	}
	if err != nil {
		s.run.Close()
		return nil, err
	}
	s.pruner = pruner.Start(full.PruneEvery, s.Prune, backend, full.Logger)
	return s, nil
}

// Fill decides one operation. A lone caller waits for one commit; concurrent callers share it. An
// Ask and a refusal write nothing, but for the first refusal under another leak rate, one that
// begins a penalty, and one that finds the time of its bucket ahead; see [store.Record.Fill]. An
// Ask takes no lock, nor does a refusal if the last answer for its bucket was a refusal.
func (s *Store) Fill(ctx context.Context, op store.Op) (store.State, error) {
	call := s.refusals.Of(&op)
	if call.Ask {
		if st, ok, err := s.ask(ctx, &op); ok || err != nil {
			return st, store.Wrap(backend, "fill", err)
		}
	}
	answer, err := s.do(ctx, call.Hash, records.Request{Kind: records.Fill, Op: op})
	if err != nil {
		return store.State{}, store.Wrap(backend, "fill", err)
	}
	call.Answered(&answer.State)
	return answer.State, nil
}

// Apply decides transactions, all of them in one commit. Transactions that only ask take no lock.
func (s *Store) Apply(ctx context.Context, txns ...store.Txn) (results []store.Result, err error) {
	if !slices.ContainsFunc(txns, func(t store.Txn) bool { return !t.Asks() }) {
		err = s.look(ctx, records.KeysOf(txns), func(v *view, now int64) error {
			results = v.Apply(txns, now)
			return nil
		})
		return results, store.Wrap(backend, "apply", err)
	}
	if ctx.Done() != nil {
		// A caller whose context ends may change its arguments while the commit is under way.
		txns = slices.Clone(txns)
		for i := range txns {
			txns[i] = slices.Clone(txns[i])
		}
	}
	answer, err := s.do(ctx, 0, records.Request{Kind: records.Apply, Txns: txns})
	return answer.Results, store.Wrap(backend, "apply", err)
}

// Delete removes buckets, damaged ones included, all of them in one commit.
func (s *Store) Delete(ctx context.Context, keys ...string) error {
	if ctx.Done() != nil {
		keys = slices.Clone(keys)
	}
	_, err := s.do(ctx, 0, records.Request{Kind: records.Remove, Keys: keys})
	return store.Wrap(backend, "delete", err)
}

// do has a flush decide a request.
func (s *Store) do(ctx context.Context, hash uint64, r records.Request) (records.Answer, error) {
	if err := s.run.Ready(ctx); err != nil {
		return records.Answer{}, err
	}
	return s.combiner.Do(ctx, hash, r)
}

// Close ends pruning, and ends the store when the calls in flight have ended. The database stays
// open.
func (s *Store) Close() error {
	s.pruner.Stop()
	s.combiner.Close()
	s.run.Close()
	s.sql.Close()
	return nil
}
