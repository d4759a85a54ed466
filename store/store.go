package store

import (
	"context"
	"time"
)

// Store keeps buckets. Package brim's Limiter is its usual caller.
//
// All methods may be called by any number of goroutines at once. Arguments have passed [Op.Validate], [Txn.Validate],
// [Bucket.Validate] or [ValidateKey]; a store need not look again, but must answer [errors.ErrUnsupported] to a [Mode] or a
// field that it does not know, never ignore it.
//
// Every method answers a context that is already done with the context's error and does nothing; after Close it
// answers [ErrClosed]. An error other than [ErrUnknownOutcome] means that nothing was applied.
// A refusal is a [State], never an error.
//
// A wrapper around a Store is a Store.
type Store interface {
	// Fill decides one operation on one bucket, atomically. It is the hot path.
	Fill(ctx context.Context, op Op) (State, error)

	// Apply decides transactions in order, each on its own and all or none of its operations: see [Decide]. It answers
	// with one Result per transaction. Backends that commit do so once for all of them, so that a caller with much to do
	// pays for one commit.
	Apply(ctx context.Context, txns ...Txn) ([]Result, error)

	// Read reports the state of each bucket, in the order asked, by the limit that comes with it; a zero Limit means the
	// one last written with the key. A bucket that is not there is empty; asked for without a limit, its Capacity is 0.
	// Nothing is written.
	Read(ctx context.Context, buckets ...Bucket) ([]State, error)

	// Delete removes buckets whatever they hold. Keys that are not there are passed over.
	Delete(ctx context.Context, keys ...string) error

	// Scan lists up to limit buckets whose keys start with prefix and are greater than after, in byte order of key, each
	// by the limit last written. Fewer than limit entries mean that there are no more. Nothing is held between calls, so a
	// caller may write between pages; a bucket that is there from the first page to the last is listed once.
	Scan(ctx context.Context, prefix, after string, limit int) ([]Entry, error)

	// Prune removes the buckets that [Record.Expired] names and reports how many. No answer changes by it.
	Prune(ctx context.Context) (int64, error)

	// Close ends the store. Calls in flight end first, or fail with ErrClosed. Closing twice is allowed.
	Close() error
}

// Mode says what becomes of an amount that does not fit.
type Mode uint8

const (
	// IfFits puts the amount in wholly or not at all: TryFillup and Hold. With a negative amount and a ceiling it takes
	// out only while the bucket is no fuller than expected.
	IfFits Mode = iota
	// Clamp puts the amount in up to the rim; what exceeds it is lost: Fillup.
	Clamp
	// Always puts the amount in even past the rim, and never below zero: Drain, Capture, Release.
	Always
)

// UntilEmpty as an [Op]'s BlockFor blocks the bucket until what it then holds has leaked.
const UntilEmpty time.Duration = -1

// Op is one operation on one bucket.
type Op struct {
	Bucket
	// Amount is the units to put in; in modes IfFits and Always it may be negative and takes out, never below zero.
	Amount float64
	// Hold is the change of the held units, which take up room and do not leak. Taking back more than is held is
	// [ErrNotHeld].
	Hold float64
	Mode Mode
	// Ceiling, if not 0, tightens the capacity for this call and is not stored: a shaper's longest wait.
	Ceiling float64
	// CeilingAt, if not zero, is the time on the bucket's clock at which the bucket was allowed to reach Ceiling: it sinks
	// from then on at the leak rate. A caller that takes back what it put in sets both from the State that it was given:
	// the operation then goes through only where nobody has put anything in behind it.
	CeilingAt time.Time
	// BlockFor is the penalty: a call whose amount does not fit blocks the bucket for this long, or [UntilEmpty]. A block
	// is never shortened by a later one.
	BlockFor time.Duration
}

// Txn is operations that go in together or not at all. A key may come more than once, with one limit; a later operation
// sees what an earlier one did.
type Txn []Op

// Result is what became of a transaction.
type Result struct {
	// Accepted reports that the transaction went in: none of its IfFits operations was refused.
	Accepted bool
	// States has one element per operation. In a transaction that was refused each reports the bucket as it was left, not
	// Accepted, and only those that refused have a RetryAfter.
	States []State
	// Err is why this transaction could not be decided, [ErrNotHeld] or [ErrCorrupt] for instance; then it changed nothing.
	Err error
}

// Entry is a bucket in a listing, with its state by the limit last written.
type Entry struct {
	Key string
	State
}
