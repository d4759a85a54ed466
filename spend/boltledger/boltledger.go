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
	"github.com/brimgo/brim/spend/internal/book"
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
	combiner *combine.Combiner[task, int64]
	closed   atomic.Bool
}

var _ ledger.Ledger = (*Ledger)(nil)

// task is a job, or the IDs of requests to forget if they are older than before. Its answer is the
// number of requests that were forgotten.
type task struct {
	job    *ledger.Job
	ids    [][]byte
	before int64
	pace   *book.Pace // of PruneRequests
}

// New returns the ledger in the file of s, and creates its bbolt buckets if the file has none.
// Closing the ledger leaves s open; close the ledger first. A store with [bolt.Options.SyncEvery]
// is refused with [store.ErrMisconfigured], because money must not be forgotten.
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
	_, err := l.combiner.Do(ctx, 0, task{job: job})
	return explain("decide", err)
}

// DecideAll runs jobs in one commit. See [ledger.Ledger].
func (l *Ledger) DecideAll(ctx context.Context, jobs []*ledger.Job) []error {
	tasks := make([]task, len(jobs))
	for i, job := range jobs {
		tasks[i].job = job
	}
	_, errs := l.combiner.DoAll(ctx, 0, tasks)
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

// flush does a batch of tasks. The combiner has locked the tables.
func (l *Ledger) flush(_ int, batch []*combine.Request[task, int64]) {
	var jobs []*ledger.Job
	for _, r := range batch {
		if r.In.job != nil {
			jobs = append(jobs, r.In.job)
		}
	}
	var own []error
	err := l.db.Update(func(tx *kv.Tx) (err error) {
		b := l.names.in(tx)
		own, err = b.decide(jobs, l.clock.Now())
		for _, r := range batch {
			if err == nil && r.In.job == nil {
				r.Out, err = b.forget(&r.In)
			}
		}
		return err
	})
	for _, r := range batch {
		if r.Err = err; err == nil && r.In.job != nil { // a job that failed by itself has seen the others' changes
			r.Err, own = own[0], own[1:]
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
	return explain(op, l.db.View(func(tx *kv.Tx) error { return fn(l.names.in(tx)) }, l.names.tables()...))
}

// PruneRequests forgets requests, some hundreds in each commit, and rests between them. See
// [ledger.Ledger].
func (l *Ledger) PruneRequests(ctx context.Context, prefix string, before int64) (removed int64, err error) {
	if l.closed.Load() {
		return 0, store.Wrap(backend, "prune", store.ErrClosed)
	}
	// An old request without a hold never gets one, so the requests and the holds of now will do.
	if err := l.db.Checkpoint(ctx); err != nil {
		return 0, store.Wrap(backend, "prune", err)
	}
	pace := new(book.Pace)
	stored := func(fn func(*buckets) error) error {
		if err := pace.Rest(ctx); err != nil {
			return err
		}
		defer pace.Worked(time.Now())
		return l.db.Stored(func(tx *kv.Tx) error { return fn(l.names.in(tx)) })
	}
	held := make(map[string]bool)
	for from := []byte{}; from != nil && err == nil; {
		err = stored(func(b *buckets) (err error) { from, err = b.held(held, from); return err })
	}
	for after := []byte{}; after != nil && err == nil; {
		var ids [][]byte
		err = stored(func(b *buckets) (err error) {
			ids, after, err = b.old(prefix, before, after, held)
			return err
		})
		if err == nil && len(ids) > 0 {
			var n int64
			n, err = l.combiner.Do(ctx, 0, task{ids: ids, before: before, pace: pace})
			removed += n
		}
	}
	return removed, store.Wrap(backend, "prune", err)
}

// Close refuses further calls, and returns when the decisions in flight have ended. The store
// stays open.
func (l *Ledger) Close() error {
	l.closed.Store(true)
	l.combiner.Close()
	return nil
}
