package brim

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/brimgo/brim/store"
)

// Wait puts n units into b as soon as they fit, and returns the State as the units left it. If
// Accepted is false, a wait would be in vain, and nothing went in: RetryAfter is [Never], or ends
// after the context's deadline. Such a refusal comes as soon as an answer of the store shows it,
// mostly at once. Without a deadline, Wait waits for as long as others keep b full.
//
// Wait asks the store, and asks again after RetryAfter and a random part of up to a tenth of it.
// Room that somebody makes meanwhile, by Drain or Reset for instance, is found only then.
//
// The callers that wait for one key in one Limiter stand in a line. Only the first of them asks
// for room, and a newcomer goes to the end. If the context of a caller ends, the others move up.
// A newcomer's RetryAfter includes the leak of the units in front of it. TryFillup knows of no
// line: it takes room that is there. An n of 0 does not wait. A Limiter of [Limiter.WithPenalty]
// shares the lines; Wait sets no penalty, but waits until a block ends.
//
// Take [Shaper.Wait] instead if work must be evenly spaced, or if callers of several processes
// must have their turns in order. Wait lets the capacity of b through without a pause, and
// between two processes small amounts overtake large ones. A Shaper knows the turn beforehand and
// asks the store once, but no wait frees the room of held units for it.
//
// If the context ends during the wait, Wait returns the context's error. If the error is
// [ErrUnknownOutcome], n may have gone in. After any other error it did not.
func (l *Limiter) Wait(ctx context.Context, b Bucket, n float64) (State, error) {
	if l.penalty != 0 {
		l = l.WithPenalty(0)
	}
	op := store.Op{Bucket: b, Amount: n, Mode: store.IfFits}
	if isSpecial(&op.Limit) {
		return l.TryFillup(ctx, b, n)
	}
	if err := l.prepare(&op, n); err != nil {
		return State{}, err
	}
	var st State
	var err error
	first := n == 0 || l.lines.empty(op.Key)
	if first {
		st, err = l.store.Fill(ctx, op)
		if err != nil || st.Accepted || tooLate(ctx, st.RetryAfter) {
			return st, err
		}
	}
	w := l.lines.join(op.Key, n)
	defer l.lines.leave(w)
	if !first {
		question := op
		question.Mode = store.Ask
		if st, err = l.store.Fill(ctx, question); err != nil {
			return State{}, err
		}
	}
	st.Accepted, st.RetryAfter = false, l.lines.retryAfter(w, &st)
	for !st.Accepted && !tooLate(ctx, st.RetryAfter) {
		if err := w.pause(ctx, st.RetryAfter); err != nil {
			return State{}, err
		}
		l.lines.setAsking(w, true)
		if st, err = l.store.Fill(ctx, op); err != nil {
			return State{}, err
		}
		l.lines.setAsking(w, st.Accepted)
	}
	return st, nil
}

// tooLate reports whether a wait of d ends after the context's deadline, or never.
func tooLate(ctx context.Context, d time.Duration) bool {
	deadline, ok := ctx.Deadline()
	return d == Never || ok && d > time.Until(deadline)
}

// lines are the lines of the callers of Wait, by the key that the store knows. A key is in the map
// only while somebody waits for it.
type lines struct {
	mu    sync.Mutex
	byKey map[string]*line
}

// line is the list of callers that wait for one key, by its last. The first of them asks for room.
type line struct {
	key  string
	last *waiter
}

// waiter is the place of a caller in a line.
type waiter struct {
	line          *line
	amount        float64
	ahead, behind *waiter
	asking        bool          // the store has the caller's amount, perhaps
	front         chan struct{} // closed when the caller is the first
}

// empty reports whether nobody waits for key.
func (l *lines) empty(key string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.byKey[key] == nil
}

// join puts a caller at the end of the line for key.
func (l *lines) join(key string, amount float64) *waiter {
	w := &waiter{amount: amount, front: make(chan struct{})}
	l.mu.Lock()
	defer l.mu.Unlock()
	in := l.byKey[key]
	if in == nil {
		in = &line{key: key}
		if l.byKey == nil {
			l.byKey = make(map[string]*line)
		}
		l.byKey[key] = in
		close(w.front)
	} else {
		w.ahead, in.last.behind = in.last, w
	}
	w.line, in.last = in, w
	return w
}

// leave takes a caller out of its line, and tells the caller that is the first now.
func (l *lines) leave(w *waiter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	in := w.line
	if w.behind != nil {
		w.behind.ahead = w.ahead
	} else {
		in.last = w.ahead
	}
	switch {
	case w.ahead != nil:
		w.ahead.behind = w.behind
	case w.behind != nil:
		close(w.behind.front)
	default:
		delete(l.byKey, in.key)
		if len(l.byKey) == 0 {
			l.byKey = nil // an emptied map keeps its memory
		}
	}
}

// setAsking sets whether the store has the units of w, perhaps. It has them while it is asked to put
// them in, and once it has accepted them.
func (l *lines) setAsking(w *waiter, asking bool) {
	l.mu.Lock()
	w.asking = asking
	l.mu.Unlock()
}

// retryAfter returns the time until the amount of w fits behind the units in front of it. The state
// is an answer about the amount alone. It is older than this look at the line, so nobody's units
// count twice: whoever still waits had put nothing in. The store may have the units of a caller
// that asks, so they do not count here.
func (l *lines) retryAfter(w *waiter, st *State) time.Duration {
	l.mu.Lock()
	units := 0.0
	for a := w.ahead; a != nil; a = a.ahead {
		if !a.asking {
			units += a.amount
		}
	}
	l.mu.Unlock()
	if units == 0 {
		return st.RetryAfter
	}
	return max(st.RetryAfter, timeToLeak(st.Level+st.Held+units+w.amount-st.Capacity, st.LeakRate))
}

// pause waits until w is the first of its line. If it is the first already, pause waits for d and a
// random part of up to a tenth of it, but not past the context's deadline.
func (w *waiter) pause(ctx context.Context, d time.Duration) error {
	select {
	case <-w.front:
		spread := min(d/10, Never-1-d)
		if deadline, ok := ctx.Deadline(); ok {
			spread = min(spread, max(0, (time.Until(deadline)-d)/2))
		}
		return sleep(ctx, d+rand.N(spread+1))
	default:
	}
	select {
	case <-w.front:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// sleep waits for d, or until the context ends.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
