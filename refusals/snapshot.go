package refusals

import (
	"math"
	"strings"
	"time"

	"github.com/brimgo/brim/store"
)

// snapshot is the state of a bucket as an answer of the store showed it.
//
// The level in it, less the leak since, stays a lower bound of the bucket's level until somebody
// gives units back: all other calls only raise the level. The leak is counted from the moment at
// which the question was sent, so it is never too small.
//
// The fields from hash to provisional are set before the snapshot is published and are never
// written again. Lookups therefore take no lock, and the cores share the snapshot's cache lines.
type snapshot struct {
	hash   uint64
	key    shortKey
	amount float64      // units that do not fit before wait has passed
	wait   int64        // nanoseconds after sent; math.MaxInt64: amount never fits
	sent   int64        // when the question was sent, in nanoseconds on this process's clock
	rec    store.Record // the bucket at the answer
	clock  int64        // the store's clock at the answer, in microseconds
	// A refusal reads the fields above, which fill two cache lines, and also these two.
	received int64 // when the answer arrived, in nanoseconds on this process's clock
	minClock int64 // a lower bound of the store's clock at received, in microseconds

	longKey     string // the key, if it is too long for shortKey
	provisional bool   // no caller was refused amount; the last accepted fill asked for it
	// The answer was to an amount above the capacity. Such a refusal does not end the time at the
	// leak rate that was last written, which may be another than that of rec: nothing is refused by it.
	unsettled bool
	_         [8]byte
	pending   // guarded by the set's mutex
}

// shortKey holds a key of at most maxShort bytes; the last byte holds its length. A last byte of
// longMark means that the key is in snapshot.longKey.
type shortKey [24]byte

const (
	maxShort = len(shortKey{}) - 1
	longMark = 0xff
)

func (e *snapshot) setKey(key string) {
	if len(key) > maxShort {
		e.key[maxShort], e.longKey = longMark, strings.Clone(key) // key may be part of a large buffer
		return
	}
	copy(e.key[:], key)
	e.key[maxShort] = byte(len(key))
}

func (e *snapshot) hasKey(key string) bool {
	if len(key) > maxShort {
		return e.longKey == key
	}
	return int(e.key[maxShort]) == len(key) && string(e.key[:len(key)]) == key
}

// pending counts the questions about a bucket that the store has not answered yet.
type pending struct {
	calls   int
	units   float64       // the sum of the calls' amounts
	changed chan struct{} // closed when waiting callers should try again; nil if no caller waits
}

// notify wakes the callers that wait at the snapshot.
func (p *pending) notify() {
	if p.changed != nil {
		close(p.changed)
		p.changed = nil
	}
}

// newSnapshot returns the snapshot of an answer to op. It leaves the key unset, because many
// snapshots are discarded before they are published.
func newSnapshot(op *store.Op, st *store.State, sent, received int64) snapshot {
	e := snapshot{sent: sent, received: received, rec: store.Record{
		Level: st.Level, Held: st.Held, Time: st.At.UnixMicro(), Limit: op.Limit,
	}}
	if !st.BlockedUntil.IsZero() {
		e.rec.BlockedUntil = st.BlockedUntil.UnixMicro()
	}
	e.clock = e.rec.Time
	if !st.Accepted && op.CeilingAt.IsZero() {
		// If the store's clock was set back, the bucket's time is ahead of the clock. The store
		// then returns a longer wait than the level explains. The difference is the lag of the
		// clock. A difference of up to two microseconds is rounding.
		const rounding = 2 * time.Microsecond
		explained := e.rec.Refusal(op, e.clock, math.MaxInt64).RetryAfter
		lag := st.RetryAfter - explained
		if st.RetryAfter != store.Never && explained != store.Never && lag > rounding {
			e.clock -= lag.Microseconds()
		}
	}
	e.minClock = e.clock
	e.unsettled = op.Mode == store.IfFits && !st.Accepted && op.Amount+op.Hold > op.Capacity
	if op.Mode == store.IfFits && !st.Accepted && op.Ceiling == 0 && op.Hold == 0 {
		e.amount, e.wait = op.Amount+op.Hold, nanoseconds(st.RetryAfter)
	} else {
		e.precompute(op.Amount + op.Hold)
	}
	return e
}

// precompute sets the snapshot's amount to n and computes its wait, so that refuse need not. It
// reports whether the bucket refuses n.
func (e *snapshot) precompute(n float64) bool {
	op := store.Op{Bucket: store.Bucket{Limit: e.rec.Limit}, Amount: n}
	e.provisional = true
	e.amount, e.wait = n, nanoseconds(e.rec.Refusal(&op, e.clock, math.MaxInt64).RetryAfter)
	return e.wait > 0
}

// nanoseconds keeps store.Never as math.MaxInt64.
func nanoseconds(d time.Duration) int64 { return int64(d) }

// refuse writes the refusal of op into st and returns true, if op is known not to fit. Otherwise
// it leaves st unchanged and returns false. now is a reading of this process's clock.
func (e *snapshot) refuse(op *store.Op, now, remember int64, st *store.State) bool {
	elapsed := now - e.sent
	n := op.Amount + op.Hold
	if elapsed < 0 || e.unsettled || elapsed >= remember && n <= op.Capacity {
		return false
	}
	clock := e.maxClock(elapsed)
	level := e.levelAt(clock)
	var wait time.Duration
	switch {
	case n != e.amount || op.Ceiling != 0 || op.Hold != 0:
		wait = e.waitFor(op, n, clock)
	case e.wait == math.MaxInt64:
		wait = store.Never
	case elapsed < e.wait:
		wait = time.Duration((e.wait-elapsed+999)/1000) * time.Microsecond
	}
	if wait == 0 {
		return false
	}
	at := max(e.rec.Time, e.minClockAt(now))
	st.Level, st.Held, st.RetryAfter = level, e.rec.Held, wait
	st.Capacity, st.LeakRate, st.Estimate = op.Capacity, op.LeakRate, true
	st.At = time.UnixMicro(at).UTC()
	if e.rec.BlockedUntil > at && e.rec.BlockedUntil != 0 {
		st.BlockedUntil = time.UnixMicro(e.rec.BlockedUntil).UTC()
	}
	return true
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
			level := e.levelAt(fits)
			lost := op.Amount > 0 && level+op.Amount == level // in rounding
			if level+r.Held+n <= op.Capacity && !lost && e.levelAt(fits-1)+r.Held+n > op.Capacity && fits < store.MaxTime {
				return time.Duration(max(0, fits-clock)) * time.Microsecond
			}
		}
	}
	return r.Refusal(op, clock, math.MaxInt64).RetryAfter
}

// levelAt returns the units that are left when the store's clock shows clock.
func (e *snapshot) levelAt(clock int64) float64 { return e.rec.LevelAt(clock) }

// maxClock returns an upper bound of the store's clock, elapsed nanoseconds after the question
// was sent.
func (e *snapshot) maxClock(elapsed int64) int64 { return e.clock + (elapsed+999)/1000 }

// minClockAt returns a lower bound of the store's clock when this process's clock shows now.
func (e *snapshot) minClockAt(now int64) int64 { return e.minClock + max(0, now-e.received)/1000 }

// fitsBesidePending reports whether op may fit even if the store accepts all pending questions.
func (e *snapshot) fitsBesidePending(op *store.Op, now, remember int64) bool {
	elapsed := now - e.sent
	if elapsed < 0 || elapsed >= remember {
		return false
	}
	return e.levelAt(e.maxClock(elapsed))+e.rec.Held+e.units+op.Amount+op.Hold <= op.Capacity
}

// supersedes reports whether e should replace old as the snapshot of the bucket.
func (e *snapshot) supersedes(old *snapshot) bool {
	switch {
	case !e.overlaps(old): // e is later, even if the store's clock was set back
		return true
	case e.rec.Time != old.rec.Time:
		return e.rec.Time > old.rec.Time
	case e.rec.BlockedUntil != old.rec.BlockedUntil: // a block is never shortened
		return old.rec.BlockedUntil == 0 || e.rec.BlockedUntil != 0 && e.rec.BlockedUntil > old.rec.BlockedUntil
	}
	return e.rec.Level+e.rec.Held >= old.rec.Level+old.rec.Held
}

// overlaps reports whether the store may have answered the two questions in either order. Two
// readings of one value overlap, because a coarse clock may not have moved between them. If the
// question of e ended before the question of old began, an injected clock was put back, and e is
// the later snapshot.
func (e *snapshot) overlaps(old *snapshot) bool {
	return e.sent <= old.received && e.received >= old.sent
}
