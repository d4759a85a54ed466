package boltledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"go.etcd.io/bbolt"

	"github.com/brimgo/brim/bolt"
	"github.com/brimgo/brim/internal/boltfile"
	"github.com/brimgo/brim/internal/clock"
	"github.com/brimgo/brim/internal/combine"
	"github.com/brimgo/brim/internal/kv"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/store"
)

const backend = "boltledger"

// DefaultName is the default of [Options.Name].
const DefaultName = "spend"

// Options are the choices of [New]. A nil *Options means all defaults.
type Options struct {
	// Name is the beginning of the names of the ledger's bbolt buckets; "" means [DefaultName].
	// It must differ from the Name of the store's options.
	Name string
	// Clock replaces the ledger's clock, for tests and for replaying logs. It must be safe for
	// concurrent use. If Clock is nil, the ledger reads the clock of the store; see
	// [bolt.Options]. Whatever the clock, the time of an account never runs back.
	Clock func() time.Time
}

// Ledger is a [ledger.Ledger] in a bbolt file. Any number of goroutines may use it at once.
type Ledger struct {
	reads
	db       *kv.DB
	clock    *clock.Clock
	names    *names
	combiner *combine.Combiner[*ledger.Job, struct{}]
	closed   atomic.Bool
}

var _ ledger.Ledger = (*Ledger)(nil)

type jobRequest = combine.Request[*ledger.Job, struct{}]

// New returns the ledger in the file of s, and creates its bbolt buckets if the file has none.
// Closing the ledger leaves s open; close the ledger first. A store with [bolt.Options.SyncEvery] is
// refused with [store.ErrMisconfigured], because money must not be forgotten.
func New(s *bolt.Store, o *Options) (*Ledger, error) {
	l, err := newLedger(s, o)
	return l, store.Wrap(backend, "new", err)
}

func newLedger(s *bolt.Store, o *Options) (*Ledger, error) {
	if o == nil {
		o = &Options{}
	}
	if s == nil {
		return nil, fmt.Errorf("%w: the store is nil; open one with bolt.Open", store.ErrClosed)
	}
	name := cmp.Or(o.Name, DefaultName)
	if len(name) > 64 {
		return nil, boltfile.Misconfigured("Name is longer than 64 bytes", nil)
	}
	db := kv.Of(s)
	if db.SyncEvery() > 0 {
		return nil, fmt.Errorf("%w: the store has SyncEvery, with which a power cut loses decisions; open it without", store.ErrMisconfigured)
	}
	l := &Ledger{db: db, clock: db.Clock(), names: namesOf(db, name)}
	if o.Clock != nil {
		l.clock = clock.New(clock.Options{Source: o.Clock})
	}
	l.reads = reads{l, l.read}
	if err := l.create(); err != nil {
		remedy := boltfile.RestoreDatabase
		if l.db.File().Owned() {
			remedy = boltfile.Restore
		}
		return nil, boltfile.WithRemedy(err, remedy)
	}
	var err error
	l.combiner, err = combine.New(l.flush, &combine.Options{
		// While another goroutine writes, callers wait in the queue, where the end of their
		// contexts still takes them back.
		Before: func(int) error { return l.db.Lock(context.Background()) },
		After:  func(int) { l.db.Unlock() },
	})
	return l, err
}

// create creates the ledger's buckets if the file has none, and otherwise checks those of an
// application's database. Open has checked those of a file of its own.
func (l *Ledger) create() error {
	file, there := l.db.File(), false
	err := file.View(func(tx *bbolt.Tx) (err error) { there, err = l.names.there(tx); return err })
	if err != nil {
		return err
	}
	if there {
		return file.CheckBuckets(l.names.all(), &boltfile.Verifier{})
	}
	if err := file.Lock(context.Background()); err != nil {
		return err
	}
	defer file.Unlock()
	return file.Update(func(tx *bbolt.Tx) (bool, error) {
		return true, file.Guard(func() error { return l.names.create(tx) })
	})
}

// Decide runs a job, and makes it durable together with others that are made at the same time. See
// [ledger.Ledger].
func (l *Ledger) Decide(ctx context.Context, job *ledger.Job) error {
	_, err := l.combiner.Do(ctx, 0, job)
	return explain("decide", err)
}

// DecideAll runs jobs in one commit. See [ledger.Ledger].
func (l *Ledger) DecideAll(ctx context.Context, jobs []*ledger.Job) []error {
	_, errs := l.combiner.DoAll(ctx, 0, jobs)
	for i, err := range errs {
		errs[i] = explain("decide", err)
	}
	return errs
}

// jobError is the error of a job, which fails alone.
type jobError struct{ error }

// explain returns the error of a job as the job returned it, and wraps all other errors.
func explain(op string, err error) error {
	if err == nil { // errors.As would allocate
		return nil
	}
	if own := (jobError{}); errors.As(err, &own) {
		return own.error
	}
	return store.Wrap(backend, op, err)
}

// flush decides a batch. The combiner has locked the tables.
func (l *Ledger) flush(_ int, batch []*jobRequest) {
	jobs := make([]*ledger.Job, len(batch))
	for i, r := range batch {
		jobs[i] = r.In
	}
	var own []error
	err := l.db.Update(func(tx *kv.Tx) (err error) {
		own, err = l.names.in(tx).decide(jobs, l.clock.Now())
		return err
	})
	for i, r := range batch {
		if r.Err = err; err == nil { // a job that failed by itself has seen the others' changes
			r.Err = own[i]
		}
	}
}

// read runs fn on all decisions so far.
func (l *Ledger) read(ctx context.Context, op string, fn func(*buckets) error) error {
	if l.closed.Load() {
		return store.Wrap(backend, op, store.ErrClosed)
	}
	if err := ctx.Err(); err != nil {
		return store.Wrap(backend, op, err)
	}
	return explain(op, l.db.View(func(tx *kv.Tx) error { return fn(l.names.in(tx)) }, l.names.accounts, l.names.requests))
}

// PruneRequests forgets requests, some thousands in each transaction. See [ledger.Ledger].
func (l *Ledger) PruneRequests(ctx context.Context, prefix string, before int64) (removed int64, err error) {
	if l.closed.Load() {
		return 0, store.Wrap(backend, "prune", store.ErrClosed)
	}
	if err := l.db.Checkpoint(ctx); err != nil { // the views below have few changes to put in order then
		return 0, store.Wrap(backend, "prune", err)
	}
	var held map[string]bool
	var after []byte
	for done := false; !done; done = after == nil {
		var ids [][]byte
		err := l.read(ctx, "prune", func(b *buckets) (err error) {
			if held == nil {
				if held, err = b.held(); err != nil {
					return err
				}
			}
			ids, after, err = b.old(prefix, before, after, held)
			return err
		})
		if err == nil && len(ids) > 0 {
			var n int64
			n, err = l.forget(ctx, ids, before)
			removed += n
		}
		if err != nil {
			return removed, store.Wrap(backend, "prune", err)
		}
	}
	return removed, nil
}

// forget removes requests by ID, if they are older than before. Since ids were listed, another
// PruneRequests may have removed one of them, and a new request may have its ID.
func (l *Ledger) forget(ctx context.Context, ids [][]byte, before int64) (removed int64, err error) {
	if err := l.db.Lock(ctx); err != nil {
		return 0, err
	}
	defer l.db.Unlock()
	err = l.db.Update(func(tx *kv.Tx) error {
		b := l.names.in(tx)
		for _, id := range ids {
			value, err := b.requests.get(id)
			if err != nil {
				return err
			}
			if value == nil {
				continue
			}
			if r, err := decodeRequest(id, value); err == nil && r.At < before {
				if err := tx.Delete(l.names.requests, string(id)); err != nil {
					return err
				}
				removed++
			}
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return removed, nil
}

// Close refuses further calls, and returns when the decisions in flight have ended. The store
// stays open.
func (l *Ledger) Close() error {
	l.closed.Store(true)
	l.combiner.Close()
	return nil
}
