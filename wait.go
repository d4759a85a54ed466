package brim

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/brimgo/brim/store"
)

// horizon bounds how far ahead callers of Wait book: an amount goes in when the units before it
// leak to the capacity within this time. Units that are given back from the middle would let later
// ones go too early, so only the last booking can be given back. The horizon bounds the time that
// is lost by callers that leave, and by a process that is killed. It is long beside a round trip to
// a store.
const horizon = time.Second

// Wait books n units in b, waits for their turn, and returns the State as the booking left it. The
// booking puts the units in at once, above the capacity if need be. The turn comes when so much has
// leaked of the units before them that n fits, on the store's clock. Until then no TryFillup and no
// later booking of any process goes before the caller, because the level is above the capacity.
//
// Wait gives up with an [*OverLimitError], and nothing stays in, as soon as an answer of the store
// shows that the turn would come after the context's deadline, or after Options.MaxWait, or never:
// mostly at once. RetryAfter is then the wait until n would fit behind the callers that wait, or
// [Never]. If b is blocked, Wait books when the block is over. An n of 0 does not wait. Under a
// quota of the calendar Wait books nothing: it tries again after the end of the period, and its
// callers have no order.
//
// Wait books at most a second ahead. If the bucket is booked further, the callers for one key in
// one Limiter stand in a line and book in the order in which they came. The lines of several
// processes, and callers with other amounts, share the turns and not the units: a caller that books
// 5,000 at a time gets 50 times as many as one that books 100. If the context of a caller in the
// line ends, nothing of it has gone in, and the others move up. A Limiter of [Limiter.WithPenalty]
// shares the lines. Wait sets no penalty.
//
// If the context ends after the booking, Wait tries for at most a second to take the units out
// again. It does so, too, if a Hold of another caller went in just before and leaves no room for n.
// If somebody has booked behind the units, or the process is killed, they stay in and their turn
// passes unused. That keeps others out for at most a second and n divided by the leak rate. So a
// lost Wait for 100 units that leak in an hour costs an hour.
//
// A turn that is given stays as it is if the limit changes, or if b is drained, reset, blocked or
// filled by Fillup meanwhile. The line finds the room of a Drain or a Reset when its first caller
// tries again.
//
// Take [Shaper.Wait] instead if work must be evenly spaced. Wait lets the capacity of b through
// without a pause.
//
// If the context ends during the wait, Wait returns the context's error, and an error of the store
// that kept it from taking the units out. If the error is [ErrUnknownOutcome], n may have gone in.
// After any other error it did not.
func (l *Limiter) Wait(ctx context.Context, b Bucket, n float64) (State, error) {
	if l.penalty != 0 {
		l = l.WithPenalty(0)
	}
	if n == 0 || l.shadow != nil || isSpecial(&b.Limit) { // no wait changes the answer
		st, err := l.TryFillup(ctx, b, n)
		if err == nil && !st.Accepted {
			return State{}, &OverLimitError{st}
		}
		return st, err
	}
	if b.Calendar() {
		return l.waitPeriod(ctx, b, n)
	}
	op := store.Op{Bucket: b, Amount: n, Mode: store.IfFits}
	if err := l.prepare(&op, n); err != nil {
		return State{}, err
	}
	w := waiter{lim: l, bucket: b, n: n, key: op.Key, last: time.Now().Add(l.maxWait)}
	units := l.lines.units(w.key)
	if units > 0 {
		op.Mode = store.Ask // a newcomer goes behind the line
	}
	st, err := l.store.Fill(ctx, op)
	if err != nil || st.Accepted && units == 0 {
		return st, err
	}
	if err := w.tooLate(ctx, st, units); err != nil {
		return State{}, err
	}
	var r *Reservation
	if units == 0 {
		r, _, err = w.book(ctx)
	}
	if r == nil && err == nil {
		r, err = w.bookInLine(ctx)
	}
	if err != nil {
		return State{}, err
	}
	if st, err = r.wait(ctx); err != nil {
		l.lines.wake(w.key) // the units may be out again
	}
	return st, err
}

// waiter is a caller of Wait.
type waiter struct {
	lim    *Limiter
	bucket Bucket
	n      float64
	key    string    // as the store knows it
	last   time.Time // when its turn must have come, by MaxWait
}

// left returns the longest wait that is permitted from now on.
func (w *waiter) left(ctx context.Context) time.Duration {
	last := w.last
	if deadline, ok := ctx.Deadline(); ok && deadline.Before(last) {
		last = deadline
	}
	return max(0, time.Until(last))
}

// tooLate returns an OverLimitError if n would fit too late, or never, behind units that are not in
// the bucket yet. The state is an answer of the store.
func (w *waiter) tooLate(ctx context.Context, st State, units float64) error {
	behind := st
	behind.Level += units
	st.Accepted, st.RetryAfter = false, max(st.RetryAfter, behind.When(w.n))
	if st.RetryAfter < Never && st.RetryAfter <= w.left(ctx) {
		return nil
	}
	return &OverLimitError{st}
}

// book tries to book. If it returns neither a reservation nor an error, the caller may try again
// after the duration.
func (w *waiter) book(ctx context.Context) (*Reservation, time.Duration, error) {
	turns := Shaper{lim: w.lim, burst: w.bucket.Capacity}
	r, err := turns.book(ctx, w.bucket, w.n, w.ceiling(ctx))
	if err != nil {
		return nil, 0, err
	}
	st := r.State
	switch {
	case !st.Accepted:
		return nil, st.RetryAfter, w.tooLate(ctx, st, 0)
	case st.Held+w.n > w.bucket.Capacity: // no leak makes room beside the held units
		out, err := r.takeOut(ctx)
		if out {
			st.Level -= w.n
		}
		st.Accepted, st.RetryAfter = false, Never
		return nil, 0, errors.Join(&OverLimitError{st}, err)
	}
	return r, 0, nil
}

// ceiling returns the level that the units may reach, or 0 for the capacity. The units before them
// decide: without n in the sum, small amounts would go before large ones.
func (w *waiter) ceiling(ctx context.Context) float64 {
	rate := w.bucket.LeakRate
	if rate == 0 {
		return 0
	}
	ceiling := w.bucket.Capacity + min(rate*horizon.Seconds()+w.n, rate*w.left(ctx).Seconds())
	return ceiling + roundingMargin(ceiling) // a turn at the very end is in time
}

// bookInLine books in the order of the line. A caller that is refused tries again after RetryAfter
// and up to a quarter of the horizon, because the lines of other processes try at the same time.
// The key is booked for longer than that, so it does not idle.
func (w *waiter) bookInLine(ctx context.Context) (*Reservation, error) {
	in := w.lim.lines.join(w.key, w.n, w.bucket.LeakRate)
	defer w.lim.lines.leave(w.key, in, w.n)
	select {
	case in.first <- struct{}{}:
		defer func() { <-in.first }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	for {
		r, retry, err := w.book(ctx)
		if r != nil || err != nil {
			return r, err
		}
		timer := time.NewTimer(retry + rand.N(horizon/4))
		select {
		case <-timer.C:
		case <-in.room:
		case <-ctx.Done():
			err = ctx.Err()
		}
		timer.Stop()
		if err != nil {
			return nil, err
		}
	}
}

// lines are the lines of the callers of Wait, by the key as the store knows it.
type lines struct {
	mu    sync.Mutex
	byKey map[string]*line
}

// line is the callers that wait for one key and have not booked.
type line struct {
	first   chan struct{} // full of the first callers, which may try; the others send in their order
	room    chan struct{} // has an element after units were given back
	callers int
	units   float64
}

// units returns the units of the line for key.
func (l *lines) units(key string) float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if in := l.byKey[key]; in != nil {
		return in.units
	}
	return 0
}

// wake lets one of those that try for key try again.
func (l *lines) wake(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if in := l.byKey[key]; in != nil {
		select {
		case in.room <- struct{}{}:
		default:
		}
	}
}

// join puts a caller with n units at the end of the line for key. As many callers may try at once
// as book in a quarter of the horizon, but at most 16.
func (l *lines) join(key string, n, rate float64) *line {
	l.mu.Lock()
	defer l.mu.Unlock()
	in := l.byKey[key]
	if in == nil {
		first := int(min(16, 1+rate*(horizon/4).Seconds()/n))
		in = &line{first: make(chan struct{}, first), room: make(chan struct{}, 1)}
		l.byKey[key] = in
	}
	in.callers++
	in.units += n
	return in
}

func (l *lines) leave(key string, in *line, n float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	in.callers--
	in.units = max(0, in.units-n)
	if in.callers == 0 {
		delete(l.byKey, key)
	}
}
