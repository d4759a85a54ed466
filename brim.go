// Package brim limits the rate of work that has a size: requests, rows, bytes, cents.
//
// A bucket holds Capacity units and leaks LeakRate units per second. [Limiter.TryFillup] puts a
// cost into the bucket if the cost fits wholly. The step is atomic, whether the bucket is kept in
// PostgreSQL, Redis, SQLite, a bbolt file or memory. Most programs need only that method:
//
//	db, err := bolt.Open("limits.db", nil) // or postgres.New, redisstore.New, memory.New
//	...
//	lim := brim.New(db, nil)
//	inserts := brim.Limit{Capacity: 10_000, LeakRate: 500} // rows; rows per second
//	st, err := lim.TryFillup(ctx, inserts.For("tenant:42"), float64(len(rows)))
//	switch {
//	case err != nil: // the store failed or an argument is invalid; the limit gave no answer
//	case !st.Accepted: // nothing went in; the rows fit after st.RetryAfter
//	default: // all rows are counted
//	}
//
// # Methods
//
// [Limiter.TryFillup] decides before the work is done. [Limiter.TryFillupAll] does so for
// several buckets at once: a user, the user's tenant and the whole service. [Limiter.Fillup]
// registers work that has already happened. [Limiter.AbleToAccept] and [Limiter.State] only
// ask. [Limiter.Drain] gives units back.
//
// [Limiter.Hold] reserves room for a cost that is known only later; [Limiter.Capture] or
// [Limiter.Release] ends the reservation. [Limiter.Wait] waits until a cost fits instead of
// refusing it, and [Shaper] gives callers evenly spaced turns. [Limiter.WithPenalty] blocks a
// bucket after an overflow, and [Limiter.Block] by hand.
//
// # Keys and limits
//
// The key alone identifies a bucket. The limit comes with each call, so a program can change
// limits at any time without touching the store. A bucket that does not exist is empty.
//
// # Units and time
//
// Amounts are float64. Integers up to 2^53 are exact, so count in the smallest unit: cents,
// rows, bytes. Times are whole microseconds on the store's clock, which is the server's clock
// for PostgreSQL and Redis, and the process's clock for the other backends.
//
// # Refusals and errors
//
// A refusal is a [State], never an error. An error means that the store failed or that an
// argument was invalid; the limit then gave no answer. Match errors with [errors.Is]: only
// [ErrUnavailable] and [ErrUnknownOutcome] mean that the store is out of reach, where a caller may
// choose to let the work through.
//
// # Bursts
//
// A bucket that starts empty lets about twice its capacity through in the time that a full
// bucket takes to drain: the capacity at once, and as much again while it leaks. For "never
// more than c in any window", see package spend.
//
// The model is the leaky bucket as a meter; see Turner, "New directions in communications (or
// which way to the information age?)", IEEE Communications Magazine, October 1986.
package brim

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/brimgo/brim/store"
)

// Limit is the capacity and the leak rate of a bucket:
//
//	type Limit struct {
//		Capacity float64 // units, from 0 to 2^53; integers up to 2^53 are exact
//		LeakRate float64 // units per second: 0, which never leaks, or from 1e-12 to 2^53
//	}
//
//	func (l Limit) For(key string) Bucket           // the bucket of that key, under this limit
//	func (l Limit) MaxWait() time.Duration          // the time that a full bucket takes to drain
//	func (l Limit) WeekStarting(day time.Weekday) Limit      // of a quota of the calendar; see Per
//	func (l Limit) MonthStarting(day int) Limit              // likewise: from 1 to 31
//	func (l Limit) DayStarting(clock time.Duration) Limit    // likewise: the local time
//	func (l Limit) PeriodAt(at time.Time) (begins, ends time.Time) // of a quota, or zero
//	func (l Limit) Validate() error                 // ErrInvalidLimit if a field is out of range
//	func (l Limit) ValidateAmount(n float64) error  // ErrInvalidAmount if n is out of range
//
// A limit comes with each call, so it can change at any time. After the capacity is lowered,
// calls are refused until enough has leaked. A changed leak rate holds from the call on, unless the
// call only asks: the time before it has leaked at the old rate.
//
// [Over], [Per], [Smooth] and [GCRA] compute limits from other figures, and [ParseLimit] reads a
// text. A Limit is written as that text in JSON. The zero Limit is invalid, so that a limit that
// somebody forgot is noticed.
type Limit = store.Limit

// Nobody is the limit under which nothing fits but an amount of 0, and no wait helps: RetryAfter is
// [Never]. Unlimited is the limit under which everything fits and nothing is counted. The texts of
// both are "nobody" and "unlimited".
//
// TryFillup, TakeUpTo, Fillup, AbleToAccept and Hold under these limits are answered without the
// store; their State has no time, and Capacity 0 or 2^53. Drain, Capture, Release and State reach
// the store, which goes by the limit last written: a hold of the time before can end. A hold that
// was granted under Unlimited is not stored, and its end under Unlimited is accepted.
var (
	Nobody    = store.Nobody
	Unlimited = store.Unlimited
)

// ParseLimit reads a limit from a text, for flags and configurations:
//
//	100/1h       capacity 100; a full bucket drains in an hour, as with Over(100, time.Hour)
//	100/h        the same
//	100@0.5      capacity 100; 0.5 units leak per second
//	100@0        capacity 100; nothing leaks
//	100/day@Europe/Berlin         100 in each calendar day of the zone, as with Per
//	100/week,sunday@UTC           weeks that start on Sunday
//	100/month,15,06:00@Asia/Tokyo months that start on the 15th at 06:00
//	nobody, 0    Nobody
//	unlimited    Unlimited
//
// A period is one of package time, or has days of 24 hours and weeks: 30d, 2w. A calendar period is
// hour, day, week, month or year, and has a zone. A process keeps each kind of calendar period for
// ever, 65,536 at most, so do not read such texts from strangers. The error is [ErrInvalidLimit]
// and tells how to write a limit.
func ParseLimit(s string) (Limit, error) { return store.ParseLimit(s) }

// Over returns the limit of a bucket that drains in period once it is full: Over(100,
// time.Hour) leaks 100 units per hour. With a capacity of 0 it is [Nobody]. If period is not
// positive, the limit is invalid, and every call with the limit returns [ErrInvalidLimit].
func Over(capacity float64, period time.Duration) Limit { return store.Over(capacity, period) }

// Period is the length of the periods of a quota; see [Per].
type Period = store.Period

// The periods of quotas.
const (
	Hour  = store.Hour
	Day   = store.Day
	Week  = store.Week
	Month = store.Month
	Year  = store.Year
)

// Per returns the quota of capacity units in each calendar hour, day, week, month or year of zone:
// Per(10_000, Month, time.UTC). Within a period nothing leaks. At its end the bucket is empty, and
// RetryAfter of a refusal is the time to the end. The store's clock decides which period it is.
// Around the end of a period up to twice the capacity goes through in a short time; [Over] has no
// such edge.
//
// A week starts on Monday, a month on its first day, and every period but an hour at midnight,
// unless WeekStarting, MonthStarting and DayStarting of the Limit say otherwise. A period starts at
// the first instant after which local time never returns to an earlier date, or to an earlier time
// of its first day. If clocks repeat an hour, both together are one.
//
// The zone has a name that [time.LoadLocation] knows. A capacity of 0 is [Nobody]. Validate of the
// Limit refuses arguments that are out of range, and more than 65,536 combinations of a period, a
// zone and a start in one process. A clock before 1970 is [ErrInvalidLimit].
func Per(capacity float64, period Period, zone *time.Location) Limit {
	return store.Per(capacity, period, zone)
}

// Smooth returns the limit of a queue that releases rate units per second and keeps none of
// them longer than maxWait: its capacity is rate times maxWait. Use it with a [Shaper]. Choose a
// maxWait of at most the callers' timeout less the time of the work after the turn. Such a limit
// passes [Shaper.CheckTimeout].
//
// If rate or maxWait is not positive, the limit is invalid, and every call with the limit
// returns [ErrInvalidLimit].
func Smooth(rate float64, maxWait time.Duration) Limit {
	if maxWait <= 0 {
		return Limit{} // a capacity of 0 alone would be valid
	}
	return Limit{Capacity: rate * maxWait.Seconds(), LeakRate: rate}
}

// GCRA returns a limit and the cost of a cell. With both, a bucket decides as the generic cell
// rate algorithm of ITU-T I.371 does: one cell per interval (T in the recommendation), and each
// cell at most tolerance (tau) ahead of its time. Every cell costs the same:
//
//	limit, cost := brim.GCRA(time.Second/50, 200*time.Millisecond)
//	st, err := lim.TryFillup(ctx, limit.For("port:7"), cost)
//
// The unit is the nanosecond. A cell costs interval, the bucket leaks 10^9 units per second,
// and its capacity is interval plus tolerance plus one half. The half absorbs rounding: the
// leak of a whole number of microseconds, computed in doubles, is not always whole, and without
// the half a cell that arrives exactly at the earliest permitted time would sometimes be
// refused. The decisions equal those of the algorithm, ties included, if the bucket is empty at
// least once in three weeks.
//
// Interval plus tolerance must be less than 2^52 nanoseconds, about 52 days. Interval must be
// positive, and tolerance must not be negative. Otherwise the limit is invalid, and every call
// with the limit returns [ErrInvalidLimit].
func GCRA(interval, tolerance time.Duration) (limit Limit, cost float64) {
	const longest = 1<<52 - 1 // a larger double has no halves
	if interval <= 0 || tolerance < 0 || interval > longest || tolerance > longest-interval {
		return Limit{}, 0
	}
	return Limit{Capacity: float64(interval+tolerance) + 0.5, LeakRate: 1e9}, float64(interval)
}

// Bucket is a key and the limit that the caller applies to it:
//
//	type Bucket struct {
//		Key string // UTF-8 without NUL, 1 to 512 bytes; compared byte by byte
//		Limit
//	}
//
//	func (b Bucket) Validate() error // ErrInvalidKey or ErrInvalidLimit
//
// Two buckets with one key are the same bucket, whatever their limits.
type Bucket = store.Bucket

// State is a bucket as a call found it or left it:
//
//	type State struct {
//		Level        float64       // units that leak, after the call
//		Held         float64       // units reserved by Hold, after the call; they do not leak
//		Capacity     float64       // units, of the limit that the call decided by
//		LeakRate     float64       // units per second at which the bucket leaks until the next write
//		Spilled      float64       // units of a Fillup that exceeded the capacity and were lost
//		Taken        float64       // units that a TakeUpTo put in
//		Drained      float64       // units that a Drain took out
//		RetryAfter   time.Duration // if not Accepted, the wait until the amount fits; else 0
//		At           time.Time     // the bucket's time at the decision, on the store's clock
//		Empties      time.Time     // end of the period of a quota of the calendar; otherwise zero
//		BlockedUntil time.Time     // end of the block, on the store's clock; zero if not blocked
//		Accepted     bool          // this call's amount fits, and no block keeps it out
//		Full         bool          // this call filled the bucket to its capacity
//		Estimate     bool          // a wrapper answered from memory, without asking the store
//	}
//
//	func (s State) Remaining() float64           // units that would still fit; 0 while blocked
//	func (s State) When(n float64) time.Duration // time after At until n units would fit
//	func (s State) TimeToEmpty() time.Duration   // time after At until the level has leaked
//	func (s State) String() string               // one line, for logs
//
// RetryAfter assumes that no other caller fills the bucket meanwhile. It is [Never] if no wait
// helps. LeakRate and Empties are of the limit last written: that of the call, unless the call has
// only asked, or was refused under a block or for more than the capacity. Accepted and a RetryAfter
// together mean that Options.Shadow let the call pass.
type State = store.State

// Entry is a bucket in a listing:
//
//	type Entry struct {
//		Key   string
//		State // by the limit last written
//	}
type Entry = store.Entry

// Never is the RetryAfter of an amount for which no wait makes room: the amount exceeds the
// capacity less the held units, the bucket does not leak, or the wait is longer than 146 years or
// ends after the year 2255. A time added to it is still positive: compare with >=.
const Never = store.Never

// UntilEmpty is the penalty or block that lasts until the bucket would be empty if nothing more
// went in. If the bucket does not leak, only [Limiter.Unblock] or [Limiter.Reset] lifts it.
const UntilEmpty = store.UntilEmpty

// Errors of the caller. The bucket has not changed. Match them with [errors.Is].
var (
	// ErrInvalidKey reports a key that is empty, longer than 512 bytes with the Limiter's
	// prefix, not UTF-8, or contains NUL.
	ErrInvalidKey = store.ErrInvalidKey
	// ErrInvalidAmount reports an amount that is NaN, infinite, negative or above 2^53, or so
	// small that adding it to the capacity changes nothing; a hold that is below 2^-38 of the
	// capacity; and amounts of TakeUpTo that are not whole.
	ErrInvalidAmount = store.ErrInvalidAmount
	// ErrInvalidLimit reports a capacity, leak rate, penalty or block out of range, one key with
	// two limits in one TryFillupAll, or a limit without a leak in a [Shaper].
	ErrInvalidLimit = store.ErrInvalidLimit
	// ErrNotHeld reports a capture or release of more units than the bucket holds.
	ErrNotHeld = store.ErrNotHeld
	// ErrClosed reports a call after the store was closed, or to a Limiter without a store.
	ErrClosed = store.ErrClosed
)

// Errors of the store. The limit gave no answer. Only [ErrUnavailable] and [ErrUnknownOutcome] say
// that the store is out of reach, so that a caller may choose to let the work through; Fallback in
// package local decides in memory then. Match them with [errors.Is]; docs/errors.md lists their
// causes.
var (
	// ErrUnavailable reports a store that is out of reach: it gave no answer, or it said that it
	// cannot answer now, for these buckets or for all. Nothing was applied, and the same call may
	// succeed later.
	ErrUnavailable = store.ErrUnavailable
	// ErrMisconfigured reports a store that cannot answer until somebody mends its setup: a table
	// or a right is missing, the password is wrong, an option does not fit the server. Nothing was
	// applied.
	ErrMisconfigured = store.ErrMisconfigured
	// ErrFull reports a store that has reached its bound of buckets, and has no place for the new
	// one that the call needs. Nothing was applied.
	ErrFull = store.ErrFull
	// ErrUnknownOutcome reports a call that was cut short after it was sent. The call may have
	// been applied, or may be applied later, so repeating it can count the amount twice.
	ErrUnknownOutcome = store.ErrUnknownOutcome
	// ErrCorrupt reports stored data that is damaged. Nothing was applied or repaired.
	ErrCorrupt = store.ErrCorrupt
)

// ErrOverLimit matches every [*OverLimitError] in [errors.Is].
var ErrOverLimit = errors.New("over the limit")

// OverLimitError is the error of [Limiter.Do], [Limiter.Wait], [Shaper.Do] and [Shaper.Wait] if the
// amount did not fit, or would fit too late. Nothing went into the bucket, and the function of Do
// did not run.
type OverLimitError struct {
	State // the refusal; RetryAfter is the wait until the amount fits, or [Never]
}

// Error says when the amount would fit, or why it never will. It does not contain the key.
func (e *OverLimitError) Error() string {
	switch {
	case e.RetryAfter < Never:
		return fmt.Sprintf("brim: %v: it would fit in %v", ErrOverLimit, e.RetryAfter)
	case e.Capacity == 0:
		return fmt.Sprintf("brim: %v: nothing fits; the capacity is 0", ErrOverLimit)
	case e.Held > 0:
		return fmt.Sprintf("brim: %v: no leak makes the room; %s of %s units are held until somebody releases them",
			ErrOverLimit, inFull(e.Held), inFull(e.Capacity))
	case e.LeakRate == 0 && e.Empties.IsZero():
		return fmt.Sprintf("brim: %v: %s units are left of %s, and the bucket does not leak",
			ErrOverLimit, inFull(e.Remaining()), inFull(e.Capacity))
	}
	return fmt.Sprintf("brim: %v: it can never fit; the bucket takes %s units at most", ErrOverLimit, inFull(e.Capacity))
}

// inFull writes f without an exponent: an operator looks for the million of the configuration.
func inFull(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

// Is reports whether target is [ErrOverLimit].
func (e *OverLimitError) Is(target error) bool { return target == ErrOverLimit }
