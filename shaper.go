package brim

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/brimgo/brim/internal/sleep"
	"github.com/brimgo/brim/store"
)

// Shaper makes callers wait for their turn, so that a bucket lets its units through evenly
// spaced: the leaky bucket as a queue. The level of the bucket is the queue, so all processes
// that share the store share the queue, and it lasts as long as the stored bucket does. Make a
// Shaper with [NewShaper].
//
// An amount has its turn when all units that were in the bucket before it have leaked. In an
// empty bucket the turn comes at once. Otherwise it comes n/rate after the previous turn, where
// n is the amount of that turn. ShaperOptions.Burst lets so many units go ahead without a pause. If
// the amount does not fit into the bucket, or if its turn would come later than MaxWait or the
// context's deadline allows, it is refused at once and nothing goes in. Most programs need only
// [Shaper.Wait]. [Shaper.Reserve] returns the time of the turn without waiting.
//
// Use a bucket either as a queue or as a meter. Units that [Limiter.TryFillup] puts in go ahead
// at once and delay later turns. If Drain or Release takes units out, a newcomer may get a turn
// before callers that still wait. Held units take up room that no wait frees.
//
// A Limiter with Options.Shadow lets everything pass, so there are no turns: Reserve and Wait
// return an error that matches [errors.ErrUnsupported].
//
// A Shaper has no state of its own and may be used by any number of goroutines at once.
type Shaper struct {
	lim     *Limiter
	maxWait time.Duration
	burst   float64
}

// ShaperOptions adjust a [Shaper]. The zero value is the default.
type ShaperOptions struct {
	// MaxWait is the longest wait for a turn. An amount that would wait longer is refused. 0
	// means no bound beyond the capacity of the bucket; see [store.Limit.MaxWait].
	MaxWait time.Duration

	// Burst is the number of units that go ahead at once: an amount has its turn when the bucket
	// would contain no more than Burst units with it, or no more than the amount. 0 means that all
	// turns are evenly spaced. With a capacity of Burst + leak rate x MaxWait, a queue is that of
	// ReserveN in golang.org/x/time/rate.
	Burst float64
}

// NewShaper returns a Shaper over the buckets of l. The options may be nil. It fails if MaxWait
// or Burst is negative.
//
// A Shaper sets no penalty, even if l does: a caller's short deadline must not block the
// others.
func NewShaper(l *Limiter, o *ShaperOptions) (*Shaper, error) {
	var opts ShaperOptions
	if o != nil {
		opts = *o
	}
	if opts.MaxWait < 0 {
		return nil, fmt.Errorf("brim: MaxWait is %v; it must be positive, or 0 for no bound beyond the capacity",
			opts.MaxWait)
	}
	if !(opts.Burst >= 0) {
		return nil, fmt.Errorf("brim: Burst is %v; it must be positive, or 0 for evenly spaced turns", opts.Burst)
	}
	return &Shaper{lim: l.WithPenalty(0), maxWait: opts.MaxWait, burst: opts.Burst}, nil
}

// CheckTimeout returns an error if a bucket with limit l can make a caller wait longer than
// timeout, the time after which the caller gives up. Once such a queue is full, it serves
// nobody: every caller has given up when its turn comes. Call CheckTimeout where limits are
// configured, and log the error, which suggests a capacity. The error is [ErrInvalidLimit], also
// if l is invalid or does not leak.
//
// The rule is that of [Smooth]. A limit passes if its capacity is at most that of Smooth for the
// same leak rate and timeout, or if MaxWait of the Shaper is at most timeout. To leave time for
// the work after the turn, pass a timeout that is shorter by that time.
func (s *Shaper) CheckTimeout(l Limit, timeout time.Duration) error {
	if err := validateQueue(l); err != nil {
		return err
	}
	most := Smooth(l.LeakRate, timeout).Capacity
	if isSpecial(&l) || l.Capacity <= most || s.maxWait > 0 && s.maxWait <= timeout {
		return nil
	}
	longest := l.MaxWait()
	if s.maxWait > 0 {
		longest = min(longest, s.maxWait)
	}
	return fmt.Errorf("brim: %w: the queue is up to %v long and its callers give up after %v; "+
		"use a capacity of at most %v, or a MaxWait of at most the timeout", ErrInvalidLimit, longest, timeout, most)
}

// Reserve puts n units into b and returns the time of their turn, or refuses them and puts
// nothing in. It does not wait. Check State.Accepted in the reservation.
//
// The longest permitted wait is the least of three: the time that b takes to drain, MaxWait,
// and the time left until the context's deadline. After a refusal RetryAfter is the time until
// the wait would be short enough if no other caller came. An n of 0 has its turn at once.
//
// If b does not leak, the error is [ErrInvalidLimit]. If the error is [ErrUnknownOutcome], n
// may have gone in, and its turn passes unused. After any other error of the store n did not go
// in.
func (s *Shaper) Reserve(ctx context.Context, b Bucket, n float64) (*Reservation, error) {
	if err := validateQueue(b.Limit); err != nil {
		return nil, err
	}
	return s.book(ctx, b, n, s.ceiling(ctx, b.Limit, n))
}

// book is Reserve under a ceiling, for a limit that need not leak.
func (s *Shaper) book(ctx context.Context, b Bucket, n, ceiling float64) (*Reservation, error) {
	op := store.Op{Bucket: b, Amount: n, Mode: store.IfFits, Turn: true, Ceiling: ceiling}
	var st State
	if err := s.lim.fill(ctx, &st, &op, n); err != nil {
		return nil, err
	}
	received := time.Now()
	var wait time.Duration
	if st.Accepted && n > 0 && b.LeakRate > 0 { // under Unlimited every turn is now
		wait = timeToLeak(st.Level-max(n, s.burst-st.Held), b.LeakRate)
	}
	return &Reservation{
		State: st, lim: s.lim, op: op, turn: st.At.Add(wait),
		// The store decided before its answer arrived. So a wait that starts now never ends
		// early, and ends late by at most the time that the answer took.
		due: received.Add(wait),
	}, nil
}

// Wait puts n units into b and returns when their turn has come. The State is the bucket as the
// units left it. If [Shaper.Reserve] refuses the units, nothing goes in, and Wait returns an
// [*OverLimitError] at once.
//
// If the context ends during the wait, Wait tries for at most a second to take the units out
// again, and returns the context's error; see [Reservation.Cancel]. If others have reserved
// behind the units, the units stay in and their turn passes unused. If the store fails to take
// the units out, its error is joined to the context's error. If the store's answer arrives so
// late that the turn is after the deadline, Wait does not wait: it takes the units out at once
// and returns [context.DeadlineExceeded].
func (s *Shaper) Wait(ctx context.Context, b Bucket, n float64) (State, error) {
	r, err := s.Reserve(ctx, b, n)
	if err != nil {
		return State{}, err
	}
	if !r.State.Accepted {
		return State{}, &OverLimitError{r.State}
	}
	return r.wait(ctx)
}

// wait returns at the turn of an accepted reservation.
func (r *Reservation) wait(ctx context.Context) (State, error) {
	delay := r.Delay()
	if delay == 0 {
		return r.State, nil
	}
	if deadline, ok := ctx.Deadline(); ok && r.due.After(deadline) {
		return State{}, errors.Join(context.DeadlineExceeded, r.giveBack(ctx))
	}
	if err := sleep.For(ctx, delay); err != nil && r.Delay() > 0 { // at 0, the deadline is the turn
		return State{}, errors.Join(err, r.giveBack(ctx))
	}
	return r.State, nil
}

// Do waits for the turn of n units in b, then calls f and returns the error of f. If [Shaper.Wait]
// fails, because the turn would come too late for instance, Do does not call f and returns the
// error of Wait.
func (s *Shaper) Do(ctx context.Context, b Bucket, n float64, f func(context.Context) error) error {
	if _, err := s.Wait(ctx, b, n); err != nil {
		return err
	}
	return f(ctx)
}

// ceiling returns the level that n units may reach so that their wait is permitted, or 0 if the
// capacity alone decides.
func (s *Shaper) ceiling(ctx context.Context, l Limit, n float64) float64 {
	longest := Never
	if s.maxWait > 0 {
		longest = s.maxWait
	}
	if deadline, ok := ctx.Deadline(); ok {
		longest = min(longest, max(0, time.Until(deadline)))
	}
	ceiling := l.LeakRate*longest.Seconds() + max(n, s.burst)
	ceiling += roundingMargin(ceiling) // a turn at the very end of the wait is in time
	if longest >= Never || !(n >= 0 && ceiling < l.Capacity) {
		return 0
	}
	return ceiling
}

// Reservation is a place in a bucket that is used as a queue. Its methods may be called by any
// number of goroutines at once.
type Reservation struct {
	// State is the bucket as the reservation left it. If Accepted is false, there is no
	// reservation and RetryAfter is the wait until a new attempt would succeed if no other
	// caller came.
	State State

	lim  *Limiter
	op   store.Op
	turn time.Time // on the store's clock
	due  time.Time // the turn on this process's clock

	mu   sync.Mutex
	done bool // Cancel took the reservation back, or may have taken it back
}

// Turn reports the time of the turn on the store's clock. Two turns of one bucket are apart by
// at least the amount of the earlier turn divided by the leak rate. Turn of a refused
// reservation is State.At.
func (r *Reservation) Turn() time.Time { return r.turn }

// Delay reports the time left until the turn on this process's monotonic clock, or 0 if the
// turn has come. It counts from the arrival of the store's answer.
func (r *Reservation) Delay() time.Duration { return max(0, time.Until(r.due)) }

// Cancel takes the reservation back before its turn, and reports whether it did.
//
// If somebody has reserved behind the reservation, Cancel takes nothing back. The later turns are
// given out already and stay as they are, so a newcomer would get a turn that somebody else has.
// If a penalty blocks the bucket, Cancel takes nothing back either. The turn then passes unused.
// After the turn, and for a refused reservation, Cancel does nothing.
//
// If the error is [ErrUnknownOutcome], the reservation may have been taken back, and a later
// Cancel does nothing. After any other error Cancel may be called again.
func (r *Reservation) Cancel(ctx context.Context) (bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.done || !r.State.Accepted || r.op.Amount == 0 || r.Delay() == 0 {
		return false, nil
	}
	return r.takeOut(ctx)
}

// takeOut is Cancel of an accepted reservation, also after its turn.
func (r *Reservation) takeOut(ctx context.Context) (bool, error) {
	// If nobody has reserved behind the reservation, the bucket without the amount holds the
	// units that were in front, less their leak since. That is the ceiling. Its margin absorbs
	// the rounding of leaks; an amount that is smaller than the margin takes no measurable
	// time.
	op := r.op
	op.Amount = -r.op.Amount
	op.Ceiling = r.State.Level + r.State.Held - r.op.Amount + roundingMargin(max(op.Capacity, r.State.Level+r.State.Held))
	op.CeilingAt = r.State.At
	st, err := r.lim.store.Fill(ctx, op)
	r.done = st.Accepted || errors.Is(err, ErrUnknownOutcome)
	return st.Accepted, err
}

// giveBack cancels the reservation of a caller whose context has ended. It takes at most a
// second.
func (r *Reservation) giveBack(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_, err := r.Cancel(ctx)
	return err
}

// validateQueue refuses an invalid limit and a limit without a leak, which never lets a turn
// come.
func validateQueue(l Limit) error {
	if err := l.Validate(); err != nil {
		return err
	}
	if l.LeakRate == 0 && !isSpecial(&l) {
		return fmt.Errorf("brim: %w: the leak rate is 0, so no turn would ever come; use a positive leak rate",
			ErrInvalidLimit)
	}
	return nil
}

// timeToLeak returns the time in which units leak at rate, to the nearest nanosecond. The
// microseconds of State.TimeToEmpty are too coarse for turns.
func timeToLeak(units, rate float64) time.Duration {
	ns := math.Round(units / rate * 1e9)
	switch {
	case !(ns > 0):
		return 0
	case ns >= math.MaxInt64:
		return Never
	}
	return time.Duration(ns)
}

// roundingMargin returns an upper bound of the rounding error of a few sums and differences of
// levels up to x.
func roundingMargin(x float64) float64 { return 8 * (math.Nextafter(x, math.Inf(1)) - x) }
