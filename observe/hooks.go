package observe

import (
	"context"
	"time"

	"github.com/brimgo/brim/store"
)

// Hooks are functions that a [Store] calls. Nil ones are not called.
//
// They are called on the caller's goroutine, by any number of them at once, and the caller waits: they must be quick, and
// must not call the Store. The context is the caller's.
type Hooks struct {
	// Start is called before each call. The context that it returns goes on with the call, and to the other hooks: a place
	// for a span.
	Start func(ctx context.Context, c Call) context.Context
	// Decision is called for each operation that was decided: once for a Fill, and for each operation of each transaction
	// that Apply decided.
	Decision func(ctx context.Context, d Decision)
	// End is called after each call, with how long it took and how it failed.
	End func(ctx context.Context, c Call, e End)
	// Flush and Retry are called by the backend, where [Hooks.Trace] was given to it, under no caller's context.
	Flush func(f store.Flush)
	Retry func(r store.Retry)
}

// Method is what was called.
type Method string

// The methods of a [store.Store] that take a context.
const (
	Fill   Method = "fill"
	Apply  Method = "apply"
	Read   Method = "read"
	Delete Method = "delete"
	Scan   Method = "scan"
	Prune  Method = "prune"
)

// Call is a call to the store.
type Call struct {
	Method Method
	Size   int // transactions, buckets, keys, or entries asked for; 1 for a Fill, 0 for Prune
}

// Decision is what was asked of one bucket, and what came of it.
type Decision struct {
	Key    string // as Options.Key made it; empty without
	Mode   store.Mode
	Amount float64 // units; negative takes out
	Hold   float64 // units; the change of what is held
	// State is the answer. RetryAfter is the wait that the caller was told.
	State store.State
	// Accepted is that of the transaction, for operations of one; else State's.
	Accepted bool
	// Of reports how many operations were decided together, this one included.
	Of int
}

// End is how a call ended.
type End struct {
	Took time.Duration // by this machine's clock
	Err  error         // of the call; what went wrong with one transaction of several is in Failed
	// Failed is how many transactions of an Apply had an error of their own.
	Failed int
}

// Trace makes a backend feed the hooks with what only it sees: give it to the backend's Options.
func (h Hooks) Trace() store.Trace { return store.Trace{Flush: h.Flush, Retry: h.Retry} }
