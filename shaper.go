package brim

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/brimgo/brim/store"
)

// Smooth returns the limit of a queue that lets rate units per second out and keeps none of them longer than maxWait: its
// capacity is rate times maxWait. A rate or delay that is not positive gives a limit that every call refuses with
// [ErrInvalidLimit].
//
// Choose maxWait below the timeout of whoever waits: see [Shaper.CheckTimeout].
func Smooth(rate float64, maxWait time.Duration) Limit {
	return Limit{Capacity: rate * maxWait.Seconds(), LeakRate: rate}
}

// Shaper makes callers wait for their turn, so that what a bucket lets through is spaced evenly: the leaky bucket as a queue.
// The queue is the bucket's level, so it is shared by all processes that share the store and survives what the store survives.
//
// An amount that is put in has its turn when all that was in the bucket before it has leaked: at once in an empty bucket, and
// otherwise n/rate after the turn before it. What would wait longer than the bucket is deep, or longer than MaxWait or the
// context's deadline allow, is refused at once and puts nothing in. [Shaper.Wait] is what most programs need; [Shaper.Reserve]
// only says when the turn is.
//
// A bucket is used as a queue or as a meter, not both: what [Limiter.TryFillup] puts in goes ahead at once and makes others wait,
// and what Drain and Release take out lets newcomers go while others still wait. Held units take up room that waiting does not
// free. The store must be the one that decides: an answer that package lease gives from its slice says nothing about turns; it
// is turned into an error that wraps [errors.ErrUnsupported], after the amount went in.
//
// A Shaper has no state of its own and may be used by any number of goroutines at once.
type Shaper struct {
	lim     *Limiter
	maxWait time.Duration
}

// ShaperOptions adjust a [Shaper]. The zero value is the default.
type ShaperOptions struct {
	// MaxWait is the longest wait for a turn; what would wait longer is refused. 0 leaves that to the bucket's capacity.
	MaxWait time.Duration
}

// NewShaper returns a Shaper over the buckets of l; o may be nil. It fails where an option makes no sense. A penalty of l is
// not given to what a Shaper refuses: how long somebody was ready to wait is nobody else's fault.
func NewShaper(l *Limiter, o *ShaperOptions) (*Shaper, error) {
	s := &Shaper{lim: l}
	if o != nil {
		s.maxWait = o.MaxWait
	}
	if s.maxWait < 0 {
		return nil, fmt.Errorf("brim: MaxWait is %v; it must be positive, or 0 for as long as the bucket is deep", s.maxWait)
	}
	return s, nil
}

// CheckTimeout reports, as an error that says which capacity would be right, that a caller who gives up after timeout can be
// made to wait longer by a bucket of limit l. Such a queue works for nobody once it is full: every caller has gone by the time
// that it is its turn. Call it where limits are configured, and log what it says.
func (s *Shaper) CheckTimeout(l Limit, timeout time.Duration) error {
	if err := flows(l); err != nil {
		return err
	}
	longest := l.MaxWait()
	if s.maxWait > 0 {
		longest = min(longest, s.maxWait)
	}
	if longest <= timeout {
		return nil
	}
	return fmt.Errorf("brim: %w: the queue is up to %v long and its callers give up after %v; use a capacity of at most %v, or a MaxWait below the timeout",
		ErrInvalidLimit, longest, timeout, Smooth(l.LeakRate, timeout).Capacity)
}

// Reserve puts n units into b and says when their turn is, or refuses them and puts nothing in: see State in the answer. It
// does not wait. The longest wait is that of the bucket, of MaxWait and of the context's deadline, whichever is the shortest;
// RetryAfter of a refusal says when it would be short enough, if nobody else came. n = 0 has its turn at once.
//
// A bucket that does not leak is [ErrInvalidLimit]. If the error is [ErrUnknownOutcome], n may have gone in, and nobody has its
// turn. Any other error of the store means that it did not.
func (s *Shaper) Reserve(ctx context.Context, b Bucket, n float64) (*Reservation, error) {
	if err := flows(b.Limit); err != nil {
		return nil, err
	}
	op := store.Op{Bucket: b, Amount: n, Mode: store.IfFits, Ceiling: s.ceiling(ctx, b.Limit, n)}
	st, err := s.limiter().fill(ctx, &op, n)
	if err != nil {
		return nil, err
	}
	received := time.Now()
	if st.Accepted && st.Estimate {
		return nil, fmt.Errorf("brim: %w: this store answers from a slice that it took, which says nothing about turns; use the store under it", errors.ErrUnsupported)
	}
	r := &Reservation{State: st, lim: s.limiter(), op: op}
	if st.Accepted && n > 0 {
		r.Wait = drained(st.Level-n, b.LeakRate)
	}
	// The store has decided before its answer arrived: to count from here is late by no more than that, and never early.
	r.turn = received.Add(r.Wait)
	return r, nil
}

// Wait puts n units into b and returns when it is their turn. State is as of their going in; if Accepted is false they were
// refused, at once, and nothing went in: see [Shaper.Reserve].
//
// If the context ends while Wait waits, the answer is its error, and the units are taken out again where nobody has reserved
// behind them, in at most a second; else their turn passes unused, because those behind keep theirs. If the store fails in
// that, its error is joined to the context's. A turn that the store's answer came too late for is
// [context.DeadlineExceeded] in the same way.
func (s *Shaper) Wait(ctx context.Context, b Bucket, n float64) (State, error) {
	r, err := s.Reserve(ctx, b, n)
	if err != nil {
		return State{}, err
	}
	wait := r.Delay()
	if !r.State.Accepted || wait == 0 {
		return r.State, nil
	}
	if deadline, ok := ctx.Deadline(); ok && r.turn.After(deadline) {
		return State{}, errors.Join(context.DeadlineExceeded, r.giveBack(ctx))
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return r.State, nil
	case <-ctx.Done():
		return State{}, errors.Join(ctx.Err(), r.giveBack(ctx))
	}
}

// ceiling is the level that n units may reach without waiting for longer than they may, or 0 where the capacity is all there
// is to it.
func (s *Shaper) ceiling(ctx context.Context, l Limit, n float64) float64 {
	longest := Never
	if s.maxWait > 0 {
		longest = s.maxWait
	}
	if deadline, ok := ctx.Deadline(); ok {
		longest = min(longest, max(0, time.Until(deadline)))
	}
	ceiling := l.LeakRate*longest.Seconds() + n
	ceiling += rounding(ceiling) // the turn at the very end of the wait is in time
	if longest == Never || !(n >= 0 && ceiling < l.Capacity) {
		return 0
	}
	return ceiling
}

// limiter is the Shaper's, without its penalty.
func (s *Shaper) limiter() *Limiter {
	return s.lim.WithPenalty(0)
}

// Reservation is a place in a bucket that is used as a queue. It may be used by any number of goroutines at once.
type Reservation struct {
	// State is the bucket as the reservation left it. If Accepted is false there is no reservation, and RetryAfter says when to
	// come back.
	State State
	// Wait is the time from State.At, on the store's clock, to the turn.
	Wait time.Duration

	lim  *Limiter
	op   store.Op
	turn time.Time // on this process's clock

	mu   sync.Mutex
	done bool // given back, or perhaps
}

// Turn reports when the turn is, on the store's clock. Turns of one bucket are at least amount/rate apart.
func (r *Reservation) Turn() time.Time { return r.State.At.Add(r.Wait) }

// Delay reports how long it still is until the turn, by this process's monotonic clock, counted from when the store's answer
// arrived; 0 if it has come.
func (r *Reservation) Delay() time.Duration { return max(0, time.Until(r.turn)) }

// Cancel takes the reservation back before its turn, and reports whether it did. It does not where somebody has reserved
// behind it, since that one's turn stays what it is and a newcomer would get the same one; nor where the bucket is blocked. Such
// a turn passes unused. After the turn, and after a reservation that was refused, Cancel does nothing.
//
// If the error is [ErrUnknownOutcome], it may have been taken back, and Cancel will not try again.
func (r *Reservation) Cancel(ctx context.Context) (bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.done || !r.State.Accepted || r.op.Amount == 0 || r.Delay() == 0 {
		return false, nil
	}
	// Were nobody behind it, the bucket would be left with what was in front of it, less what has leaked since. The margin is
	// for the rounding of leaks; an amount so small that it hides in there takes no time that could be told from none.
	op := r.op
	op.Amount = -r.op.Amount
	op.Ceiling = r.State.Level + r.State.Held - r.op.Amount + rounding(op.Capacity)
	op.CeilingAt = r.State.At
	st, err := r.lim.backend().Fill(ctx, op)
	r.done = st.Accepted || errors.Is(err, ErrUnknownOutcome)
	return st.Accepted, err
}

// giveBack cancels for a caller whose context has ended.
func (r *Reservation) giveBack(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_, err := r.Cancel(ctx)
	return err
}

// flows refuses a limit that no turn ever comes from.
func flows(l Limit) error {
	if err := l.Validate(); err != nil {
		return err
	}
	if l.LeakRate == 0 {
		return fmt.Errorf("brim: %w: leak rate is 0: nobody's turn would ever come; use a positive one", ErrInvalidLimit)
	}
	return nil
}

// drained is the time in which level units leak, to the nearest nanosecond.
func drained(level, rate float64) time.Duration {
	ns := math.Round(level / rate * 1e9)
	switch {
	case !(ns > 0):
		return 0
	case ns >= math.MaxInt64:
		return Never
	}
	return time.Duration(ns)
}

// rounding is more than some sums and differences of levels up to x can be wrong by.
func rounding(x float64) float64 { return 8 * (math.Nextafter(x, math.Inf(1)) - x) }
