package brim

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/brimgo/brim/internal/sleep"
	"github.com/brimgo/brim/store"
)

// Wait puts n units into b as soon as they fit, and returns the State as the units left it. It gives
// up with an [*OverLimitError], and nothing goes in, if a wait would be in vain: RetryAfter is
// [Never], or ends after the context's deadline. It gives up as soon as an answer of the store shows
// that, mostly at once. Without a deadline, Wait waits for as long as others keep b full.
//
// Wait asks the store, and asks again after RetryAfter and a random part of up to a tenth of it.
// Room that somebody makes meanwhile, by Drain or Reset for instance, is found only then.
//
// The callers that wait for one key in one Limiter stand in a line. Only the first of them asks
// for room, and a newcomer goes to the end. If the context of a caller ends, the others move up.
// A newcomer's RetryAfter includes the leak of the units in front of it. If Options.MaxWaiting
// callers stand in the line, Wait does not wait: it puts n in if n fits beside the line, and gives
// up otherwise. An n of 0 does not wait. A Limiter of [Limiter.WithPenalty] shares the lines; Wait
// sets no penalty, but waits until a block ends.
//
// The room that leaks belongs to the line. While callers wait for a key, TryFillup, TryFillupAll, Do
// and Hold of the same Limiter leave room for the units of the line. They are refused if their
// amount does not fit beside those units; RetryAfter is that of a newcomer in the line, and no
// penalty is set on that bucket. AbleToAccept agrees. When a caller gives up, its room is free at
// once. Other Limiters and other processes know of no line.
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
	if l.shadow != nil {
		return l.TryFillup(ctx, b, n)
	}
	op := store.Op{Bucket: b, Amount: n, Mode: store.IfFits}
	if isSpecial(&op.Limit) {
		return l.waitSpecial(ctx, &op)
	}
	if err := l.prepare(&op, n); err != nil {
		return State{}, err
	}
	question := op
	if n > 0 && l.lines.open(op.Key) {
		question.Mode = store.Ask // a newcomer overtakes nobody
	}
	var st State
	if err := l.decide(ctx, &st, &question); err != nil {
		return State{}, err
	}
	if question.Mode == store.IfFits {
		if st.Accepted {
			return st, nil
		}
		if tooLate(ctx, st.RetryAfter) {
			return State{}, &OverLimitError{st}
		}
	}
	w, units := l.lines.join(op.Key, n)
	if w == nil { // the line is full
		st.Accepted, st.RetryAfter = false, max(st.RetryAfter, time.Microsecond)
		return State{}, &OverLimitError{st}
	}
	defer w.leave()
	if units > 0 || question.Mode == store.Ask {
		// The answer is older than this look at the line, so nobody's units count twice: a caller
		// that still waits had put nothing in.
		st.RetryAfter = retryBehind(&st, &op, units)
	}
	for st.Accepted = false; !st.Accepted; {
		if tooLate(ctx, st.RetryAfter) {
			return State{}, &OverLimitError{st}
		}
		if err := w.pause(ctx, st.RetryAfter); err != nil {
			return State{}, err
		}
		w.setAsking(true)
		var err error
		if st, err = l.store.Fill(ctx, op); err != nil {
			return State{}, err
		}
		w.setAsking(st.Accepted)
	}
	return st, nil
}

// waitSpecial is Wait for a bucket under Nobody or Unlimited: no wait changes the answer.
func (l *Limiter) waitSpecial(ctx context.Context, op *store.Op) (st State, err error) {
	if err := l.fillSpecial(ctx, &st, op, op.Amount); err != nil {
		return State{}, err
	}
	if !st.Accepted {
		return State{}, &OverLimitError{st}
	}
	return st, nil
}

// tooLate reports whether a wait of d ends after the context's deadline, or never.
func tooLate(ctx context.Context, d time.Duration) bool {
	deadline, ok := ctx.Deadline()
	return d >= Never || ok && d > time.Until(deadline)
}

// decide lets the store decide a valid operation, which leaves room for the callers that wait for
// its key.
func (l *Limiter) decide(ctx context.Context, st *State, op *store.Op) (err error) {
	units := l.lines.find(op.Key).unitsAhead(op)
	if units > 0 {
		leaveRoom(op, units)
	}
	*st, err = l.store.Fill(ctx, *op)
	if units > 0 && err == nil && !st.Accepted {
		st.RetryAfter = retryBehind(st, op, units)
	}
	return err
}

// decideAll is decide for a transaction. It returns one state per operation.
func (l *Limiter) decideAll(ctx context.Context, txn store.Txn) ([]State, error) {
	units := make([]float64, len(txn))
	for i := range txn {
		if units[i] = l.lines.find(txn[i].Key).unitsAhead(&txn[i]); units[i] > 0 {
			leaveRoom(&txn[i], units[i])
		}
	}
	results, err := l.store.Apply(ctx, txn)
	if err != nil {
		return nil, err
	}
	states := results[0].States
	for i := range states {
		if st := &states[i]; units[i] > 0 && st.RetryAfter > 0 {
			sum := store.Op{Bucket: txn[i].Bucket}
			for j := range txn {
				if txn[j].Key == sum.Key {
					sum.Amount += txn[j].Amount
				}
			}
			st.RetryAfter = retryBehind(st, &sum, units[i])
		}
	}
	return states, results[0].Err
}

// leaveRoom makes the store refuse op if it does not fit beside units that wait. A penalty would
// keep the waiting callers out, so op sets none.
func leaveRoom(op *store.Op, units float64) {
	n := op.Amount + op.Hold
	// A ceiling must be positive. One below n refuses op in any case.
	op.Ceiling, op.BlockFor = max(op.Capacity-units, n/2), 0
}

// retryBehind returns the time until op fits behind units that wait, in a bucket that the store
// reports as *st.
func retryBehind(st *State, op *store.Op, units float64) time.Duration {
	behind := *st
	behind.Level += units
	return behind.When(op.Amount + op.Hold)
}

// lines are the lines of the callers of Wait. Each line has a lock of its own, so that the callers
// of one key do not slow those of another.
type lines struct {
	most  int          // callers that may wait for one key
	keys  atomic.Int64 // keys for which somebody waits
	byKey sync.Map     // from a key, as the store knows it, to its *line
}

// line is the list of callers that wait for one key. The first of them asks for room.
type line struct {
	lines *lines
	key   string

	mu      sync.Mutex
	last    *waiter
	waiting int     // callers
	units   float64 // of all callers
	asking  float64 // units of the first caller, while the store has them, perhaps
	over    bool    // the last caller has left, and the line is not in the map any more
}

// waiter is the place of a caller in a line.
type waiter struct {
	line          *line
	amount        float64
	ahead, behind *waiter
	front         chan struct{} // closed when the caller is the first
}

// find returns the line for key, or nil if nobody waits for key. If nobody waits for any key, that
// costs one atomic load.
func (l *lines) find(key string) *line {
	if l.keys.Load() == 0 {
		return nil
	}
	return l.search(key)
}

// search is apart from find, because the compiler inlines find only while it is this short.
func (l *lines) search(key string) *line {
	in, ok := l.byKey.Load(key)
	if !ok {
		return nil
	}
	return in.(*line)
}

// open reports whether callers wait for key and a newcomer can join them.
func (l *lines) open(key string) bool {
	in := l.find(key)
	if in == nil {
		return false
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.waiting > 0 && in.waiting < l.most
}

// unitsAhead returns the units that wait for room which op would take. The line may be nil.
func (in *line) unitsAhead(op *store.Op) float64 {
	if in == nil || op.Mode != store.IfFits && op.Mode != store.Ask || op.Amount+op.Hold <= 0 || op.Turn {
		return 0
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.units
}

// join puts a caller at the end of the line for key. It returns the place of the caller, and the
// units in front of it that are not in the store. If the line is full, the place is nil.
func (l *lines) join(key string, amount float64) (w *waiter, units float64) {
	for {
		in, ok := l.byKey.Load(key)
		if !ok {
			in, _ = l.byKey.LoadOrStore(key, &line{lines: l, key: key})
		}
		if w, units, ok = in.(*line).join(amount); ok {
			return w, units
		}
	}
}

// join is join of lines for one line. It reports false if the line is over.
func (in *line) join(amount float64) (w *waiter, units float64, ok bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	switch {
	case in.over:
		return nil, 0, false
	case in.waiting >= in.lines.most:
		return nil, 0, true
	}
	w = &waiter{line: in, amount: amount, ahead: in.last, front: make(chan struct{})}
	if in.last == nil {
		close(w.front)
		in.lines.keys.Add(1)
	} else {
		in.last.behind = w
	}
	in.last = w
	units = max(0, in.units-in.asking)
	in.waiting++
	in.units += amount
	return w, units, true
}

// leave takes a caller out of its line, and tells the caller that is the first now.
func (w *waiter) leave() {
	in := w.line
	in.mu.Lock()
	defer in.mu.Unlock()
	in.waiting--
	in.units = max(0, in.units-w.amount)
	if w.behind != nil {
		w.behind.ahead = w.ahead
	} else {
		in.last = w.ahead
	}
	if w.ahead != nil {
		w.ahead.behind = w.behind
		return
	}
	in.asking = 0
	if w.behind != nil {
		close(w.behind.front)
		return
	}
	in.over = true
	in.lines.byKey.Delete(in.key)
	in.lines.keys.Add(-1)
}

// setAsking sets whether the store has the units of w, the first of its line, perhaps. It has them
// while it is asked to put them in, and once it has accepted them.
func (w *waiter) setAsking(asking bool) {
	w.line.mu.Lock()
	defer w.line.mu.Unlock()
	w.line.asking = 0
	if asking {
		w.line.asking = w.amount
	}
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
		return sleep.For(ctx, d+rand.N(spread+1))
	default:
	}
	select {
	case <-w.front:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
