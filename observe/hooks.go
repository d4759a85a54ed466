package observe

import (
	"context"
	"time"

	"github.com/brimgo/brim/store"
)

// Hooks are functions that the store of [New] calls. Nil functions are skipped.
//
// Each hook runs on the goroutine of the caller, who waits for it. So a hook must be quick, must
// be safe for concurrent use, and must not call the store. The hook gets the caller's context.
type Hooks struct {
	// Start is called before each call to the store. The call and the other hooks get the context
	// that Start returns, for instance with a span in it.
	Start func(ctx context.Context, c Call) context.Context
	// Decision is called for each operation that was decided: once for a Fill, and for each
	// operation of each transaction of an Apply, unless the transaction has an error of its own.
	// It is not called for a question (mode Ask), which puts nothing in, nor for the operations
	// that Block is called for.
	Decision func(ctx context.Context, d Decision)
	// Block is called for each Block and Unblock that went in. It is not called for a penalty,
	// which is part of a Decision.
	Block func(ctx context.Context, b Block)
	// End is called after each call to the store.
	End func(ctx context.Context, c Call, o Outcome)
	// Flush and Retry are called by the backend, if its options got [Hooks.Trace]. They belong to
	// no single caller, so they get no context.
	Flush func(f store.Flush)
	Retry func(r store.Retry)
}

// Method is the name of a method of [store.Store].
type Method string

// The methods for which hooks are called. Each takes a context.
const (
	MethodFill   Method = "fill"
	MethodApply  Method = "apply"
	MethodRead   Method = "read"
	MethodDelete Method = "delete"
	MethodVisit  Method = "visit"
	MethodPrune  Method = "prune"
)

// Call is a call to the store.
type Call struct {
	Method Method
	// Size is the number of transactions of an Apply, of buckets of a Read and of keys of a
	// Delete. It is 1 for a Fill, and 0 for a Visit and a Prune.
	Size int
	// Start is the beginning of the call by the clock of Options.
	Start time.Time
}

// Decision is one operation on one bucket and its result.
type Decision struct {
	Key    string // the key in the form of Options.Key; empty if Options.Key is nil
	Mode   store.Mode
	Amount float64 // units; a negative amount takes units out; of a TakeUpTo those that went in, or the least
	Hold   float64 // units; the change of the held units
	// Limit is the limit by which the operation was decided. State is by the rate at which the
	// bucket leaks, which a refusal may have left as it was. A quota of the calendar has the form
	// of [store.Op.SetPeriod]; see [Decision.Under].
	Limit store.Limit
	// Begins is the beginning of the period of a quota of the calendar. It is zero under another
	// limit.
	Begins time.Time
	// State is the answer of the store. Its RetryAfter is the wait after a refusal, also if
	// Shadowed spared the caller the wait.
	State store.State
	// Accepted reports whether the operation went in. In a transaction, all operations go in or
	// none.
	Accepted bool
	// Operations is the number of operations that were decided together, this one included: 1 for
	// a Fill, and the length of the transaction in an Apply.
	Operations int
	// Shadowed reports that nothing went in, because the limit refused this operation or another
	// one of its transaction, and that the caller was told that it was accepted: its Limiter has
	// Options.Shadow.
	Shadowed bool
}

// Block is the block of a bucket by Limiter.Block, or its end by Limiter.Unblock.
type Block struct {
	Mode   store.Mode  // store.Block or store.Unblock
	Key    string      // the key in the form of Options.Key; empty if Options.Key is nil
	Reason string      // that the caller put into the context by [WithReason], or ""
	State  store.State // the answer that the caller got; its BlockedUntil is the end of the block
}

type reasonKey struct{}

// WithReason returns a context for a call of Limiter.Block or Limiter.Unblock. Hooks get the
// reason; the store does not keep it. Hooks and logs get the text as it is, so it should name no
// person.
func WithReason(ctx context.Context, reason string) context.Context {
	return context.WithValue(ctx, reasonKey{}, reason)
}

// Outcome tells how a call ended.
type Outcome struct {
	Took time.Duration // by the clock of Options
	Err  error         // of the whole call; nil if only transactions of an Apply have errors
	// Failed is the number of transactions of an Apply that have an error of their own.
	Failed int
}

// Join returns hooks that call each of the given hooks, in their order. A Start gets the context of
// the Start before it, and the other hooks get that of the last.
func Join(hooks ...Hooks) Hooks {
	var all Hooks
	for _, h := range hooks {
		all = Hooks{
			Start: chain(all.Start, h.Start), Decision: both(all.Decision, h.Decision), Block: both(all.Block, h.Block),
			End: ends(all.End, h.End), Flush: events(all.Flush, h.Flush), Retry: events(all.Retry, h.Retry),
		}
	}
	return all
}

func chain(f, g func(context.Context, Call) context.Context) func(context.Context, Call) context.Context {
	if f == nil || g == nil {
		return either(f, g, f == nil)
	}
	return func(ctx context.Context, c Call) context.Context { return g(f(ctx, c), c) }
}

func both[T any](f, g func(context.Context, T)) func(context.Context, T) {
	if f == nil || g == nil {
		return either(f, g, f == nil)
	}
	return func(ctx context.Context, x T) { f(ctx, x); g(ctx, x) }
}

func ends(f, g func(context.Context, Call, Outcome)) func(context.Context, Call, Outcome) {
	if f == nil || g == nil {
		return either(f, g, f == nil)
	}
	return func(ctx context.Context, c Call, o Outcome) { f(ctx, c, o); g(ctx, c, o) }
}

func events[T any](f, g func(T)) func(T) {
	if f == nil || g == nil {
		return either(f, g, f == nil)
	}
	return func(x T) { f(x); g(x) }
}

// either returns g if second is true, and f otherwise.
func either[F any](f, g F, second bool) F {
	if second {
		return g
	}
	return f
}

// Trace returns the trace that makes a backend call Flush and Retry. Set it as the Trace of the
// backend's options.
func (h Hooks) Trace() store.Trace { return store.Trace{Flush: h.Flush, Retry: h.Retry} }
