package brim

import (
	"fmt"
	"time"

	"github.com/brimgo/brim/store"
)

// Limit says how much a bucket holds and how fast it leaks:
//
//	type Limit struct {
//		Capacity float64 // units, over 0 and at most 2^53
//		LeakRate float64 // units per second: 0, which never leaks, or from 1e-12 to 2^53
//	}
//
//	func (l Limit) For(key string) Bucket
//	func (l Limit) MaxWait() time.Duration // how long a full bucket takes to drain
//
// It comes with each call, so it can change at any time: a lowered capacity refuses until enough has leaked, and a changed
// leak rate applies to the time since the last fill as well.
type Limit = store.Limit

// Bucket is a key and the limit that the caller puts on it:
//
//	type Bucket struct {
//		Key string // UTF-8 without NUL, 1 to 512 bytes; compared byte by byte
//		Limit
//	}
type Bucket = store.Bucket

// State is what a call found or left in a bucket:
//
//	type State struct {
//		Level        float64       // units that leak, after the call
//		Held         float64       // units reserved, which do not leak, after the call
//		Capacity     float64       // the limit that the call decided by
//		LeakRate     float64       // units per second, of the same limit
//		Spilled      float64       // units that a Fillup lost over the rim
//		RetryAfter   time.Duration // when the refused amount would fit; 0 if accepted; Never if it never can
//		At           time.Time     // the bucket's time at the decision, on the store's clock
//		BlockedUntil time.Time     // nothing fits before then; zero where the bucket is not blocked
//		Accepted     bool          // did this call's amount go in (wholly)?
//		Full         bool          // did this call bring the bucket to its capacity?
//		Estimate     bool          // answered from what this process remembers, not from the store
//	}
//
//	func (s State) Remaining() float64
//	func (s State) TimeToEmpty() time.Duration
type State = store.State

// Entry is a bucket in a listing:
//
//	type Entry struct {
//		Key string
//		State       // by the limit last written
//	}
type Entry = store.Entry

// Never is the RetryAfter of an amount that waiting alone cannot make room for.
const Never = store.Never

// Over returns the limit of a bucket that, once full, drains in period: Over(100, time.Hour) leaks 100 units in an hour. A
// period that is not positive gives a limit that every call refuses with [ErrInvalidLimit].
func Over(capacity float64, period time.Duration) Limit { return store.Over(capacity, period) }

// Errors of the caller: nothing was sent. Match them with [errors.Is].
var (
	ErrInvalidKey    = store.ErrInvalidKey    // empty, longer than 512 bytes, not UTF-8, or holding NUL
	ErrInvalidAmount = store.ErrInvalidAmount // NaN, infinite, negative, above 2^53, or lost in the capacity's rounding
	ErrInvalidLimit  = store.ErrInvalidLimit  // capacity or leak rate out of range, or one key with two limits
	ErrNotHeld       = store.ErrNotHeld       // a capture or release of more than is held
	ErrClosed        = store.ErrClosed        // the store was closed, or there is none
)

// Errors of the store. The limit has said nothing: whoever calls decides what a failing store means.
var (
	ErrUnavailable    = store.ErrUnavailable    // not reached or not able to write; nothing was applied
	ErrUnknownOutcome = store.ErrUnknownOutcome // cut short after it was sent: it may have been applied, or may yet be
	ErrCorrupt        = store.ErrCorrupt        // stored data is damaged; nothing was applied or repaired
)

func errNone() error { return fmt.Errorf("brim: %w: the Limiter has no store", ErrClosed) }
