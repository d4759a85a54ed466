// Package boltledger keeps spends in a bbolt file, beside the buckets of package bolt: one file, one process, and every
// decision durable before it is answered.
//
// Decisions that are made at the same time share one commit. A process that is killed at any moment loses nothing that was
// answered; what was not answered is found out by sending it again with the same ID.
package boltledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/bbolt"

	"github.com/brimgo/brim/bolt"
	"github.com/brimgo/brim/internal/clock"
	"github.com/brimgo/brim/internal/combine"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/store"
)

const backend = "boltledger"

// DefaultName is what the ledger's buckets in the file begin with, where [Options] do not say otherwise.
const DefaultName = "spend"

// Options adjust a [Ledger]. A nil *Options means all defaults.
type Options struct {
	// Name is what the names of the ledger's buckets in the file begin with; "" means [DefaultName]. It must not be that of
	// the store's buckets.
	Name string
	// Clock replaces the system's clock, for tests and for replaying logs; it must be safe for concurrent use. The default
	// is wall time at New carried forward by the monotonic clock. Whatever the clock, no account's time runs back.
	Clock func() time.Time
}

// Ledger is a [ledger.Ledger] in a bbolt file. It may be used by any number of goroutines at once.
type Ledger struct {
	store    *bolt.Store
	clock    *clock.Clock
	names    names
	combiner *combine.Combiner[*ledger.Job, struct{}]
}

var _ ledger.Ledger = (*Ledger)(nil)

type request = combine.Request[*ledger.Job, struct{}]

// New returns the ledger in the file of s, and creates its buckets if they are not there. Closing the ledger leaves s open.
func New(s *bolt.Store, o *Options) (*Ledger, error) {
	if o == nil {
		o = &Options{}
	}
	if s == nil {
		return nil, store.Wrap(backend, "new", fmt.Errorf("%w: the store is nil; open one with bolt.Open", store.ErrClosed))
	}
	name := o.Name
	if name == "" {
		name = DefaultName
	}
	if len(name) > 64 {
		return nil, store.Wrap(backend, "new", errors.New("Name is longer than 64 bytes"))
	}
	l := &Ledger{store: s, clock: clock.New(o.Clock), names: namesOf(name)}
	missing := false
	if err := s.View(func(tx *bbolt.Tx) error { missing = !l.names.there(tx); return nil }); err != nil {
		return nil, store.Wrap(backend, "new", err)
	}
	if missing {
		err := s.Transact(func(tx *bbolt.Tx) (bool, error) { return true, l.names.create(tx) })
		if err != nil {
			return nil, store.Wrap(backend, "new", err)
		}
	}
	var err error
	l.combiner, err = combine.New(l.flush, nil)
	return l, store.Wrap(backend, "new", err)
}

// Decide runs a job, in one commit with others that are made at the same time. See [ledger.Ledger].
func (l *Ledger) Decide(ctx context.Context, job *ledger.Job) error {
	if l == nil {
		return store.Wrap(backend, "decide", store.ErrClosed)
	}
	_, err := l.combiner.Do(ctx, 0, job)
	return l.explain(ctx, "decide", err)
}

// explain leaves a job's own errors as they are.
func (l *Ledger) explain(ctx context.Context, op string, err error) error {
	if errors.Is(err, store.ErrClosed) || ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return store.Wrap(backend, op, err)
	}
	return err
}

// flush decides a batch in one transaction.
func (l *Ledger) flush(_ int, batch []*request) {
	err := l.store.Transact(func(tx *bbolt.Tx) (changed bool, err error) {
		b, err := l.names.open(tx)
		if err != nil {
			return false, err
		}
		now := l.clock.Now()
		for _, r := range batch {
			wrote, err := b.run(r.In, now)
			var own jobError
			switch {
			case errors.As(err, &own):
				r.Err = own.error
			case err != nil:
				return false, err
			}
			changed = changed || wrote
		}
		return changed, nil
	})
	if err == nil {
		return
	}
	for _, r := range batch {
		if r.Err == nil {
			r.Err = err
		}
	}
}

// jobError is what a job answered: it failed alone.
type jobError struct{ error }

// View runs a job on the newest commit. See [ledger.Ledger].
func (l *Ledger) View(ctx context.Context, job *ledger.Job) error {
	return l.read(ctx, "view", func(b *buckets) error {
		_, err := job.Run(b.snapshot(job, l.clock.Now()))
		return err
	})
}

func (l *Ledger) read(ctx context.Context, op string, fn func(*buckets) error) error {
	if l == nil {
		return store.Wrap(backend, op, store.ErrClosed)
	}
	if err := ctx.Err(); err != nil {
		return store.Wrap(backend, op, err)
	}
	return l.store.View(func(tx *bbolt.Tx) error {
		b, err := l.names.open(tx)
		if err != nil {
			return err
		}
		return fn(b)
	})
}

// History lists entries, newest first. See [ledger.Ledger].
func (l *Ledger) History(ctx context.Context, account string, before ledger.Position, limit int) (list []ledger.Entry, err error) {
	err = l.read(ctx, "history", func(b *buckets) (err error) {
		list, err = b.history(account, before, limit)
		return err
	})
	return list, err
}

// Accounts lists accounts. See [ledger.Ledger].
func (l *Ledger) Accounts(ctx context.Context, prefix, after string, limit int) (list []ledger.Account, err error) {
	err = l.read(ctx, "accounts", func(b *buckets) (err error) {
		list, err = b.list(prefix, after, limit)
		return err
	})
	return list, err
}

// PruneRequests forgets requests, some thousands in each transaction. See [ledger.Ledger].
func (l *Ledger) PruneRequests(ctx context.Context, prefix string, before int64) (removed int64, err error) {
	var held map[string]bool
	var after []byte
	for done := false; !done; {
		var ids [][]byte
		err := l.read(ctx, "prune", func(b *buckets) (err error) {
			if held == nil {
				held = b.held()
			}
			ids, after, err = b.old(prefix, before, after, held)
			return err
		})
		if err == nil && len(ids) > 0 {
			err = l.store.Transact(func(tx *bbolt.Tx) (bool, error) {
				b, err := l.names.open(tx)
				for _, id := range ids {
					if err == nil {
						err = b.requests.Delete(id)
					}
				}
				return true, err
			})
		}
		if err != nil {
			return removed, err
		}
		removed += int64(len(ids))
		done = after == nil
	}
	return removed, nil
}

// Close refuses further decisions and waits for those in flight. The store stays open.
func (l *Ledger) Close() error {
	if l == nil {
		return store.Wrap(backend, "close", store.ErrClosed)
	}
	l.combiner.Close()
	return nil
}

// With returns the ledger within tx, a transaction of the database that the store is in, given to bolt.New: what is decided
// lasts when the application commits tx, and is undone when it rolls back. In a read-only transaction only questions can be
// asked. Like tx it is for one goroutine at a time; after an error roll tx back. Close does nothing.
func (l *Ledger) With(tx *bbolt.Tx) ledger.Ledger { return &joined{l: l, tx: tx} }

// joined is a ledger within somebody else's transaction.
type joined struct {
	l  *Ledger
	tx *bbolt.Tx
}

func (j *joined) in(ctx context.Context, op string, fn func(*buckets) error) error {
	if j.tx == nil || j.tx.DB() == nil {
		return store.Wrap(backend, op, fmt.Errorf("%w: the transaction has ended", store.ErrClosed))
	}
	if err := ctx.Err(); err != nil {
		return store.Wrap(backend, op, err)
	}
	b, err := j.l.names.open(j.tx)
	if err != nil {
		return store.Wrap(backend, op, err)
	}
	return fn(b)
}

func (j *joined) Decide(ctx context.Context, job *ledger.Job) error {
	return j.in(ctx, "decide", func(b *buckets) error {
		if !j.tx.Writable() {
			return store.Wrap(backend, "decide", fmt.Errorf("%w: begin a writable transaction to decide in it", store.ErrUnavailable))
		}
		_, err := b.run(job, j.l.clock.Now())
		var own jobError
		if errors.As(err, &own) {
			return own.error
		}
		return store.Wrap(backend, "decide", err)
	})
}

func (j *joined) View(ctx context.Context, job *ledger.Job) error {
	return j.in(ctx, "view", func(b *buckets) error {
		_, err := job.Run(b.snapshot(job, j.l.clock.Now()))
		return err
	})
}

func (j *joined) History(ctx context.Context, account string, before ledger.Position, limit int) (list []ledger.Entry, err error) {
	err = j.in(ctx, "history", func(b *buckets) (err error) {
		list, err = b.history(account, before, limit)
		return err
	})
	return list, err
}

func (j *joined) Accounts(ctx context.Context, prefix, after string, limit int) (list []ledger.Account, err error) {
	err = j.in(ctx, "accounts", func(b *buckets) (err error) {
		list, err = b.list(prefix, after, limit)
		return err
	})
	return list, err
}

// PruneRequests is not for a transaction of somebody else's, which it would keep open for long.
func (j *joined) PruneRequests(context.Context, string, int64) (int64, error) {
	return 0, store.Wrap(backend, "prune", fmt.Errorf("%w within a transaction; prune the ledger itself", errors.ErrUnsupported))
}

// Close does nothing: the transaction belongs to somebody else.
func (j *joined) Close() error { return nil }
