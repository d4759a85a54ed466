package lin

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/lab/internal/history"
	"github.com/brimgo/brim/store"
)

// request is the input of a call.
type request interface {
	fmt.Stringer
	// touches returns the numbers of the buckets or accounts that the call reads or writes. Calls
	// that touch none, such as a tick of the clock, have no answer to check.
	touches() []int
	// writes reports whether the call may have changed something. out is nil if nobody knows.
	writes(out response) bool
	// ticks returns by how much the call moves the clock, and 0 for a call on the subject.
	ticks() int
}

// response is the answer to a call.
type response interface {
	fmt.Stringer
	failure() history.Failure
	// odd returns the text of an error that no subject may answer, or "".
	odd() string
}

// call is one call of a history.
type call struct {
	client      int
	in          request
	out         response // nil if the outcome is unknown
	learned     bool     // the answer came to the same request, sent again; see resolved
	began, over int64    // stamps; the effect of a call of unknown outcome comes before over or never
	readings    []int64  // of the history's clock during the call; nil if the store has its own clock
	split       bool     // a primary that was cut off may have answered; see storeModel
}

// never is the stamp after all others.
const never = math.MaxInt64

// recorder writes a history down. Stamps are numbers in the order of events: a call that was over
// before another one began has the lower stamps.
type recorder struct {
	next  atomic.Int64
	mu    sync.Mutex
	calls []*call
	open  []*call // of unknown outcome; they can still take effect
	after int64   // stamp of the latest kill; nothing that began earlier can still take effect
	lost  int     // calls of unknown outcome so far
}

func (r *recorder) stamp() int64 { return r.next.Add(1) }

// finish adds a call whose answer has come. A call that failed without effect is no part of the
// history, and neither is a read that failed.
func (r *recorder) finish(c *call) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c.over = r.stamp()
	switch c.out.failure() {
	case history.NotApplied:
		return
	case history.Unknown:
		if !c.in.writes(nil) {
			return
		}
		c.out = nil
		r.lost++
		if r.after > c.began {
			c.over = r.after
		} else {
			c.over = never
			r.open = append(r.open, c)
		}
		r.calls = append(r.calls, c)
		return
	}
	r.add(c)
}

func (r *recorder) add(c *call) { r.calls = append(r.calls, c) }

// dead marks the moment from which no call that began earlier can take effect: the process that
// carried it out has ended.
func (r *recorder) dead() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.after = r.stamp()
	for _, c := range r.open {
		c.over = r.after
	}
	r.open = nil
}

// split marks the calls that were over after a stamp, and may have an answer of a primary that was
// cut off.
func (r *recorder) split(after int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.calls {
		c.split = c.split || c.over > after
	}
}

// all returns the calls so far.
func (r *recorder) all() []*call {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.calls)
}

// unknown returns the number of calls of unknown outcome so far.
func (r *recorder) unknown() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lost
}

// done is the response of a call that has no answer, or none but its failure.
type done history.Failure

func (d done) String() string           { return cmp.Or(string(d), "done") }
func (d done) failure() history.Failure { return history.Failure(d) }
func (done) odd() string                { return "" }

// callee carries out the calls of both kinds: on stores, and on a ledger.
type callee struct {
	stores []store.Store // clients take turns
	bucket history.Bucket
	pool   *pgxpool.Pool // for transactions of the caller's
	spends *budgets
}

func (e *callee) do(ctx context.Context, client int, in request) response {
	if q, ok := in.(spendRequest); ok {
		return e.spends.call(ctx, q)
	}
	q, _ := in.(storeRequest)
	s := e.stores[client%len(e.stores)]
	if q.Kind == update || q.Kind == with {
		return transact(ctx, s, e.pool, e.bucket, q)
	}
	return storeResponse{history.CallOn(ctx, s, e.bucket, q.Op)}
}
