package local

import (
	"math"
	"time"

	"github.com/brimgo/brim/store"
)

// snapshot is the state of a bucket as an answer of the store showed it.
//
// The level in it, less the leak since, stays a lower bound of the bucket's level until somebody
// gives units back: all other calls only raise the level. The leak is counted from the moment at
// which the question was sent, so it is never too small.
//
// The fields before pending are set before the snapshot is published and are never written again.
// Lookups therefore take no lock, and the cores share the snapshot's cache lines.
type snapshot struct {
	sent  int64        // when the question was sent, in nanoseconds on this process's clock
	rec   store.Record // the bucket at the answer, with the rate at which it leaks since
	rate  float64      // of the limit of the question, as in a store.Limit; its capacity is that of rec
	clock int64        // the store's clock at the answer, in microseconds
	// asked means that the answer was to a question. A call that writes may still find something to
	// write when it is refused, so the snapshot answers questions alone.
	asked    bool
	received int64         // when the answer arrived, in nanoseconds on this process's clock
	amount   float64       // units for which the snapshot is kept
	wait     time.Duration // after clock, until amount fits
	_        [8]byte
	pending  // guarded by the set's mutex
}

// pending counts the questions about a bucket that the store has not answered yet.
type pending struct {
	calls   int
	units   float64       // the sum of the calls' amounts
	changed chan struct{} // closed when waiting callers should try again; nil if no caller waits
}

// await returns a channel that is closed by notify. The set is locked.
func (p *pending) await() <-chan struct{} {
	if p.changed == nil {
		p.changed = make(chan struct{})
	}
	return p.changed
}

// notify wakes the callers that wait at the snapshot.
func (p *pending) notify() {
	if p.changed != nil {
		close(p.changed)
		p.changed = nil
	}
}

// newSnapshot returns the snapshot of an answer to op.
func newSnapshot(op *store.Op, st *store.State, sent, received int64) snapshot {
	e := snapshot{sent: sent, received: received, rate: op.LeakRate, asked: op.Mode == store.Ask, rec: store.Record{
		Level: st.Level, Held: st.Held, Time: st.At.UnixMicro(), Limit: st.Limit(),
	}}
	if op.Limit == (store.Limit{}) { // the state is by the limit last written
		e.rate = e.rec.LeakRate
	}
	if !st.BlockedUntil.IsZero() {
		e.rec.BlockedUntil = st.BlockedUntil.UnixMicro()
	}
	e.clock = e.rec.Time
	if !st.Accepted && op.CeilingAt.IsZero() && st.RetryAfter < store.Never {
		// If the store's clock was set back, the bucket's time is ahead of the clock. The store
		// then returns a longer wait than the level explains. The difference is the lag of the
		// clock. A difference of up to two microseconds is rounding.
		lag := st.RetryAfter - e.rec.Refusal(op, e.clock, math.MaxInt64).RetryAfter
		if lag > 2*time.Microsecond {
			e.clock -= lag.Microseconds()
		}
	}
	e.keepFor(op.Amount + op.Hold)
	return e
}

// limit returns the limit of the calls that the snapshot answers.
func (e *snapshot) limit() store.Limit {
	return store.Limit{Capacity: e.rec.Capacity, LeakRate: e.rate}
}

// refuse writes the refusal of op into st and returns true, if op is known not to fit. Otherwise
// it leaves st unchanged and returns false. now is a reading of this process's clock.
func (e *snapshot) refuse(op *store.Op, now, remember int64, st *store.State) bool {
	elapsed := now - e.sent
	if elapsed < 0 || e.limit() != op.Limit || e.asked && op.Mode != store.Ask {
		return false
	}
	n := op.Amount + op.Hold
	clock := e.maxClock(elapsed)
	wait := e.wait
	switch {
	case n > max(op.Capacity, op.Ceiling) && op.BlockFor == 0:
		wait = store.Never
	case elapsed >= remember || e.changes(op, clock):
		return false
	case n != e.amount || op.Ceiling != 0 || op.Hold != 0:
		wait = e.waitFor(op, n, clock)
	case wait < store.Never:
		wait -= time.Duration(clock-e.clock) * time.Microsecond
	}
	if wait <= 0 {
		return false
	}
	at := max(e.rec.Time, e.clock+max(0, now-e.received)/1000) // at least, on the store's clock
	st.Level, st.Held, st.RetryAfter = e.rec.LevelAt(clock), e.rec.Held, wait
	st.SetLimit(e.rec.Limit)
	st.Estimate = true
	st.At = time.UnixMicro(at).UTC()
	if e.rec.BlockedUntil > at && e.rec.BlockedUntil != 0 {
		st.BlockedUntil = time.UnixMicro(e.rec.BlockedUntil).UTC()
	}
	return true
}

// changes reports whether the refusal of op, for lack of room that leaks, may change the bucket: it
// sets a block, or ends the time at another rate. The state of an empty bucket does not show the
// rate.
func (e *snapshot) changes(op *store.Op, clock int64) bool {
	if op.Mode == store.Ask || e.rec.BlockedUntil > clock && e.rec.BlockedUntil != 0 {
		return false
	}
	return op.BlockFor != 0 || e.rec.LeakRate != op.LeakRate || e.rec.Level == 0 && e.rec.Held == 0
}

// keepFor computes the wait for n units beforehand. It reports whether the bucket has no room for
// them.
func (e *snapshot) keepFor(n float64) bool {
	e.amount = n
	e.wait = e.waitFor(&store.Op{Bucket: store.Bucket{Limit: e.rec.Limit}, Amount: n}, n, e.clock)
	return e.wait > 0
}

// waitFor returns the wait for n units when the store's clock shows clock. The result is that of
// [store.Record.Refusal]; the common case takes a few nanoseconds, because it needs no search.
func (e *snapshot) waitFor(op *store.Op, n float64, clock int64) time.Duration {
	r := &e.rec
	over := r.Level + r.Held + n - op.Capacity
	common := op.Ceiling == 0 && (r.BlockedUntil == 0 || r.BlockedUntil <= clock) && r.Held+n <= op.Capacity && r.LeakRate > 0
	if over > 0 && common {
		if us := math.Ceil(over / r.LeakRate * 1e6); us < store.MaxTime {
			fits := r.Time + int64(us)
			level := e.rec.LevelAt(fits)
			lost := op.Amount > 0 && level+op.Amount == level // in rounding
			if level+r.Held+n <= op.Capacity && !lost && e.rec.LevelAt(fits-1)+r.Held+n > op.Capacity && fits < store.MaxTime {
				return time.Duration(max(0, fits-clock)) * time.Microsecond
			}
		}
	}
	return r.Refusal(op, clock, math.MaxInt64).RetryAfter
}

// maxClock returns an upper bound of the store's clock, elapsed nanoseconds after the question
// was sent.
func (e *snapshot) maxClock(elapsed int64) int64 { return e.clock + (elapsed+999)/1000 }

// fitsBesidePending reports whether op may fit even if the store accepts all pending questions.
func (e *snapshot) fitsBesidePending(op *store.Op, now, remember int64) bool {
	elapsed := now - e.sent
	if elapsed < 0 || elapsed >= remember {
		return false
	}
	return e.rec.LevelAt(e.maxClock(elapsed))+e.rec.Held+e.units+op.Amount+op.Hold <= op.Capacity
}

// supersedes reports whether e should replace old as the snapshot of the bucket. If the store may
// have answered the two questions in either order, the later time on its clock decides, and then
// the higher level. Two readings of one value overlap, because a coarse clock may not have moved
// between them. If the question of e ended before that of old began, an injected clock was put
// back, and e is the later snapshot.
func (e *snapshot) supersedes(old *snapshot) bool {
	overlap := e.sent <= old.received && e.received >= old.sent
	return !overlap || e.rec.Time > old.rec.Time ||
		e.rec.Time == old.rec.Time && e.rec.Level+e.rec.Held >= old.rec.Level+old.rec.Held
}
