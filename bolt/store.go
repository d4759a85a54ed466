package bolt

import (
	"context"
	"hash/maphash"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/bbolt"

	"github.com/brimgo/brim/internal/clock"
	"github.com/brimgo/brim/internal/combine"
	"github.com/brimgo/brim/store"
)

// Store keeps buckets in a bbolt database. It implements [store.Store]; any number of goroutines may use it at once.
//
// After an error other than [store.ErrUnknownOutcome] nothing was applied. A context that ends while a call waits for its
// turn takes the call back; one that ends while the call's commit is under way ends the call with
// [store.ErrUnknownOutcome].
type Store struct {
	options Options
	layout  layout
	clock   *clock.Clock

	owned bool   // opened by Open: Close closes it, Compact replaces it
	given string // the path as it was given, for messages
	path  string // the file itself, symbolic links followed
	file  *os.File

	combiner *combine.Combiner[request, reply]
	writer   chan struct{} // one token: whoever writes holds it, flush, Update or Compact; always taken before mu
	view     view          // the flush's; guarded by writer

	mu sync.RWMutex // held for reading while db is in use, for writing to close or to replace it
	db *bbolt.DB

	close  sync.Once
	closed atomic.Bool
	stuck  atomic.Bool           // a panic left bbolt's locks locked: nothing of it may be called again
	broken atomic.Pointer[fault] // why the store refuses all work until it is opened again

	seed    maphash.Seed
	refused [1024]atomic.Bool // by hash of key: the last answer was a refusal
}

var _ store.Store = (*Store)(nil)

// request is what a caller asks of the combiner.
type request struct {
	kind kind
	op   store.Op
	txns []store.Txn
	keys []string // to delete or to prune
}

type kind uint8

const (
	fill kind = iota
	apply
	remove
	prune
)

// reply answers it.
type reply struct {
	state   store.State
	results []store.Result
	pruned  int64
}

// New puts buckets into a database that the application has open. Close then ends the store and leaves db open; the
// application closes it afterwards. LockTimeout, FileMode and NoVerify of o mean nothing here.
//
// The store's buckets are created if they are not there. The application must leave their content alone, and should not
// keep a transaction open for long: a write transaction makes all callers of the store wait, and a read transaction keeps
// pages from being used again.
func New(db *bbolt.DB, o *Options) (*Store, error) {
	const op = "new"
	full, err := o.withDefaults()
	if err != nil {
		return nil, store.Wrap(backend, op, err)
	}
	if db == nil {
		return nil, store.Wrap(backend, op, unavailable("the database is nil; open it first", nil))
	}
	s, err := newStore(full, layoutOf(full.Name))
	if err != nil {
		return nil, store.Wrap(backend, op, err)
	}
	s.db = db
	if err := s.prepare(); err != nil {
		return nil, store.Wrap(backend, op, err)
	}
	return s, nil
}

// newStore returns a store without a database.
func newStore(o Options, l layout) (s *Store, err error) {
	s = &Store{
		options: o,
		layout:  l,
		clock:   clock.New(o.Clock),
		writer:  make(chan struct{}, 1),
		seed:    maphash.MakeSeed(),
	}
	s.view.maxSkew, s.view.keepTime = o.MaxSkew, o.Clock == nil
	s.combiner, err = combine.New(s.flush, &combine.Options{
		// While somebody else writes, callers wait in the queue, where their contexts can still call them back.
		Before:  func(int) error { s.writer <- struct{}{}; return nil },
		After:   func(int) { <-s.writer },
		Flushed: s.flushed(),
	})
	return s, err
}

// flushed tells Options.Trace of a flush; nil where nobody wants to know.
func (s *Store) flushed() func(int, time.Duration, error) {
	tell := s.options.Trace.Flush
	if tell == nil {
		return nil
	}
	return func(requests int, took time.Duration, err error) {
		tell(store.Flush{Backend: backend, Requests: requests, Took: took, Err: err})
	}
}

// Fill decides one operation. A lone caller's costs one commit; concurrent ones share it. A refusal commits nothing.
func (s *Store) Fill(ctx context.Context, op store.Op) (store.State, error) {
	if err := s.check(ctx); err != nil {
		return store.State{}, store.Wrap(backend, "fill", err)
	}
	nothing := op.Amount == 0 && op.Hold == 0
	hash := maphash.String(s.seed, op.Key)
	refused := &s.refused[hash%uint64(len(s.refused))]
	refusable := op.Mode == store.IfFits && op.BlockFor == 0
	if nothing || refusable && refused.Load() {
		if st, ok, err := s.decideFromCommitted(&op); ok || err != nil {
			return st, store.Wrap(backend, "fill", err)
		}
	}
	answer, err := s.combiner.Do(ctx, hash, request{kind: fill, op: op})
	if err != nil {
		return store.State{}, store.Wrap(backend, "fill", err)
	}
	if refusable && refused.Load() == answer.state.Accepted {
		refused.Store(!answer.state.Accepted)
	}
	return answer.state, nil
}

// Apply decides transactions, all of them in one commit.
func (s *Store) Apply(ctx context.Context, txns ...store.Txn) ([]store.Result, error) {
	if err := s.check(ctx); err != nil {
		return nil, store.Wrap(backend, "apply", err)
	}
	if ctx.Done() != nil {
		// A caller that is called away may change its arguments while the commit is under way.
		txns = slices.Clone(txns)
		for i := range txns {
			txns[i] = slices.Clone(txns[i])
		}
	}
	answer, err := s.combiner.Do(ctx, 0, request{kind: apply, txns: txns})
	return answer.results, store.Wrap(backend, "apply", err)
}

// Delete removes buckets, all of them in one commit. It removes a damaged one too.
func (s *Store) Delete(ctx context.Context, keys ...string) error {
	if err := s.check(ctx); err != nil {
		return store.Wrap(backend, "delete", err)
	}
	if ctx.Done() != nil {
		keys = slices.Clone(keys)
	}
	_, err := s.combiner.Do(ctx, 0, request{kind: remove, keys: keys})
	return store.Wrap(backend, "delete", err)
}

// Close ends the store: calls in flight end first. A store that was opened by [Open] closes its file, and another process
// may have it then; the database given to [New] stays open.
func (s *Store) Close() error {
	if s == nil {
		return store.Wrap(backend, "close", store.ErrClosed)
	}
	var err error
	s.close.Do(func() {
		s.closed.Store(true)
		s.combiner.Close()
		s.writer <- struct{}{}
		defer func() { <-s.writer }()
		s.mu.Lock()
		defer s.mu.Unlock()
		switch {
		case !s.owned:
		case s.stuck.Load():
			err = s.file.Close() // bbolt would wait for ever; the lock on the file goes with the file
		default:
			err = s.db.Close()
		}
	})
	return store.Wrap(backend, "close", err)
}

// check answers what needs no database: a call to no store, to a closed one, to a broken one, or with a context that is
// already done.
func (s *Store) check(ctx context.Context) error {
	if s == nil || s.closed.Load() {
		return store.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.usable()
}

// usable answers why the store refuses all work, if it does.
func (s *Store) usable() error {
	if f := s.broken.Load(); f != nil {
		return f
	}
	return nil
}
