package store

import (
	"math"
	"time"
)

// Never is the RetryAfter of an amount that waiting alone cannot make room for: it is more than the capacity, or the bucket
// does not leak. It is the largest Duration.
const Never = time.Duration(math.MaxInt64)

// Limit says how much a bucket holds and how fast it leaks. It comes with each call, so it can change at any time.
//
// A full bucket that then leaks lets about twice its Capacity through in the time it takes to drain. For "never more than c
// in any window", see package spend.
type Limit struct {
	Capacity float64 // units, over 0 and at most 2^53; integers up to that are exact
	LeakRate float64 // units per second: 0, which never leaks, or from 1e-12 to 2^53
}

// Over returns the limit of a bucket that, once full, drains in period. A period that is not positive gives a limit that
// every call refuses with [ErrInvalidLimit].
func Over(capacity float64, period time.Duration) Limit {
	return Limit{Capacity: capacity, LeakRate: capacity / period.Seconds()}
}

// MaxWait reports how long a bucket that was filled to its capacity takes to drain: what is put in as into a queue has left
// it after that. It is [Never] where the bucket does not leak.
func (l Limit) MaxWait() time.Duration { return seconds(l.Capacity / l.LeakRate) }

// For names the bucket that this limit applies to. Two limits with one key are one bucket: the key alone says which.
func (l Limit) For(key string) Bucket { return Bucket{Key: key, Limit: l} }

// Bucket is a key and the limit that the caller puts on it.
type Bucket struct {
	Key   string // UTF-8 without NUL, 1 to 512 bytes; compared byte by byte
	Limit        // what this call decides by
}

// State is what a call found or left in a bucket. It is a value: it does not change when the bucket does.
type State struct {
	Level        float64       // units that leak, after the call
	Held         float64       // units reserved, which do not leak, after the call
	Capacity     float64       // the limit that the call decided by; a read without one: the limit last written
	LeakRate     float64       // units per second, of the same limit
	Spilled      float64       // units that a Fillup lost over the rim
	RetryAfter   time.Duration // when the amount that did not go in would fit, if nobody else came; 0 if accepted, or [Never]
	At           time.Time     // the bucket's time at the decision: the store's clock, or the last write where the clock is behind it
	BlockedUntil time.Time     // nothing fits before then; zero where the bucket is not blocked
	Accepted     bool          // did this call's amount go in wholly?
	Full         bool          // did this call bring the bucket to its capacity? Decided at the fill, never afterwards
	Estimate     bool          // answered from what this process remembers, not from the store; see packages refusals and lease
}

// Remaining reports the units that would still fit: capacity less level less held, never below zero. A blocked bucket
// accepts none of them before BlockedUntil.
func (s State) Remaining() float64 { return max(0, s.Capacity-s.Level-s.Held) }

// TimeToEmpty reports how long after At the units that leak will have leaked, if nothing more goes in; [Never] where the
// bucket does not leak. Held units are not counted: they do not leak.
func (s State) TimeToEmpty() time.Duration {
	if s.Level <= 0 {
		return 0
	}
	return seconds(s.Level / s.LeakRate)
}

// seconds converts to a Duration, rounded up to a microsecond; what a Duration cannot hold, NaN and infinities are Never.
func seconds(s float64) time.Duration {
	us := math.Ceil(s * 1e6)
	if !(us < maxWait) {
		return Never
	}
	return time.Duration(us) * time.Microsecond
}

// maxWait is the longest wait in microseconds that a Duration can hold, about 292 years.
const maxWait = math.MaxInt64 / 1000
