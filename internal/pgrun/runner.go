// Package pgrun runs statements and transactions on PostgreSQL for the packages that keep their
// data there. Packages postgres and spend/pgledger contribute the SQL and read the rows.
// docs/internals/postgres.md tells which statement goes out when.
//
// # How a call runs
//
//   - A [Combiner] runs the calls of many callers in one statement or transaction. It uses a
//     [Lane] and the store's own deadline, so that no caller's context ends the call of
//     another. A lane takes a connection of the pool for each flush and gives it back.
//   - [Runner.Look], [Runner.Change] and [Runner.Transact] run under the context of their one
//     caller, on a connection of the pool.
//   - [Runner.Within] runs in a transaction that belongs to the application.
//
// Everything runs at READ COMMITTED. A session with another default isolation is found out by its
// first serialization failure; from then on every statement asks for READ COMMITTED. No changed
// setting stays on a connection: a statement sets lock_timeout and the like for its transaction.
//
// # How it is bounded
//
// Options.Timeout bounds the wait for a connection, and each round trip; for a flush, both
// together. A statement that gets no answer within seven eighths of it is cancelled by the server,
// so that the outcome is known: also a statement that waits for the lock of a table, which no
// lock_timeout of its own bounds. At the end of the time the connection is cut. After silence the
// idle connections of the pool are closed, since they share the server.
//
// A flush waits for a row by lock_timeout, some times as long as flushes usually take. Then it is
// sent once more and leaves out the rows that others hold. The callers of these rows go to the
// slow lane of the combiner, which tries again until their time is up.
//
// # How it is judged and retried
//
// [Refused], [Stalled] and the errors of this package rest on one function, judge, which reads an
// error of the driver: nothing was applied, or the outcome is unknown. Deadlocks, serialization
// failures and connections that were dead before use are repeated up to three times, with full
// jitter. Where the server refuses the batch of many callers, its halves are sent, so that one bad
// call fails alone. [Class] returns the sentinel that callers match: an error that leaves nothing
// applied is [store.ErrUnavailable] if it is known to pass by itself, and else
// [store.ErrMisconfigured]; every other is [store.ErrUnknownOutcome]. The text names the SQLSTATE
// and the way out, and never a key. A commit that was released from its wait for a synchronous
// standby counts as unknown.
//
// A connection is vetted at its first use: its encodings and its search_path must not change
// decisions.
package pgrun

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/internal/pgname"
	"github.com/brimgo/brim/store"
)

// Options are the choices of [New]. They are those of the store that makes the runner.
type Options struct {
	Names   pgname.Names
	Timeout time.Duration    // of one flush, with the wait for its connection
	Clock   func() time.Time // replaces the server's clock; nil keeps it
	Log     *slog.Logger
	Trace   store.Trace

	// Pages is a statement that returns the number of pages of the store's table. Resized is called
	// when the number has changed so much that statements need new texts; see growth. Any goroutine
	// may call it. Both may be missing.
	Pages   string
	Resized func()
}

// Runner runs statements for one backend: it names the backend in errors, log lines and traces.
// Any number of goroutines may use it at once.
type Runner struct {
	*server
	backend string
	parent  *Runner // nil for the runner of a store

	mu     sync.Mutex
	closed atomic.Bool // set under mu
	made   map[closer]struct{}
}

// server is the part that the runners of one store share.
type server struct {
	Options
	pool *pgxpool.Pool

	// explicit is set by the first serialization failure: the session's default isolation is
	// not READ COMMITTED, so each statement must ask for READ COMMITTED.
	explicit atomic.Bool

	start time.Time    // of the clock of heard
	heard atomic.Int64 // when a connection was last given back

	growth growth

	beginBounded string // see the function
}

// closer is a combiner, or a runner that [Runner.As] returned.
type closer interface{ Close() }

// New returns a runner over the caller's pool. It sends nothing, and Close leaves the pool
// open.
func New(pool *pgxpool.Pool, backend string, o Options) (*Runner, error) {
	if pool == nil {
		return nil, errors.New("the pool is nil; make one with pgxpool.New")
	}
	s := &server{
		Options: o, pool: pool, start: time.Now(), growth: growth{pages: o.Pages, resized: o.Resized, start: time.Now()},
		beginBounded: beginBounded(o.Timeout),
	}
	return &Runner{server: s, backend: backend, made: make(map[closer]struct{})}, nil
}

// Shared makes a store that embeds it, under an unexported name, one that [Of] knows. Its method
// belongs to this package, so that the store gets none that its callers see.
type Shared struct{ r *Runner }

func (s Shared) runner() *Runner { return s.r }

// Share returns the Shared of a store that has the runner r.
func (r *Runner) Share() Shared { return Shared{r} }

// Of returns the runner of a store, which closes with the store.
func Of(s interface{ runner() *Runner }) *Runner { return s.runner() }

// As returns a runner over the same pool, clock and options that works for another backend. It
// closes with r.
func (r *Runner) As(backend string) *Runner {
	child := &Runner{server: r.server, backend: backend, parent: r, made: make(map[closer]struct{})}
	if !r.keep(child) {
		child.closed.Store(true)
	}
	return child
}

// keep has Close close c, and reports false where r has been closed already.
func (r *Runner) keep(c closer) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed.Load() {
		r.made[c] = struct{}{}
	}
	return !r.closed.Load()
}

func (r *Runner) forget(c closer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.made, c)
}

// Close refuses further calls. It closes the runners and combiners that were made from r, and
// so waits for their flushes. A second Close does nothing.
func (r *Runner) Close() {
	r.mu.Lock()
	again := r.closed.Swap(true)
	made := r.made
	r.made = nil
	r.mu.Unlock()
	if again {
		return
	}
	for c := range made {
		c.Close()
	}
	if r.parent != nil {
		r.parent.forget(r)
	}
}

// Ready returns ErrClosed after Close, or the error of a context that is done. Every call asks
// it first.
func (r *Runner) Ready(ctx context.Context) error {
	if r.closed.Load() {
		return store.ErrClosed
	}
	return ctx.Err()
}

// Wrap names the backend and the operation in err; see [store.Wrap].
func (r *Runner) Wrap(op string, err error) error { return store.Wrap(r.backend, op, err) }

// flushed returns the function that reports a flush to the trace, or nil where nobody listens.
func (r *Runner) flushed() func(int, time.Duration, error) {
	tell := r.Trace.Flush
	if tell == nil {
		return nil
	}
	return func(requests int, took time.Duration, err error) {
		tell(store.Flush{Backend: r.backend, Requests: requests, Took: took, Err: err})
	}
}

// retrying reports a retry to the log and the trace. Attempts count from 1.
func (r *Runner) retrying(attempt int, err error) {
	r.Log.Info(r.backend+": retrying; nothing was applied", "attempt", attempt, "error", err)
	if r.Trace.Retry != nil {
		r.Trace.Retry(store.Retry{Backend: r.backend, Attempt: attempt, Err: err})
	}
}
