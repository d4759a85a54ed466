package refusals

import (
	"math"
	"strings"
	"time"

	"github.com/brimgo/brim/store"
)

// entry is what is known of a bucket: its state as an answer of the store showed it. What is known stays a lower bound on
// what the bucket holds, because without somebody who gives units back the level only rises, but for the leak; and the leak
// is counted from before the store can have begun to.
//
// The fields that decide are set before the entry is published and never written again: readers take no lock, and cores
// share the entry's cache lines.
type entry struct {
	hash uint64
	name name
	n    float64      // an amount that does not fit, as the store said so, or would have
	wait int64        // nanoseconds after sent at which n fits; math.MaxInt64: waiting does not help
	sent int64        // when the question was sent, on our clock
	rec  store.Record // the bucket at the answer
	then int64        // microseconds: the store's clock at the answer
	// All that a refusal reads is above, and in two cache lines, but for these where the clock was slow to move.
	got int64 // when the answer was there, on our clock
	at  int64 // microseconds: the store's clock at got was at least this

	long   string // the key, if it is too long for the name
	guess  bool   // n is not what was refused, but what was last put in
	_      [16]byte
	flight // guarded by the set's mutex
}

// name is a short key and, in its last byte, its length; that of a long key is 0xff.
type name [24]byte

const short = len(name{}) - 1

func (e *entry) call(key string) {
	if len(key) > short {
		e.name[short], e.long = 0xff, strings.Clone(key) // it may be part of a large buffer
		return
	}
	copy(e.name[:], key)
	e.name[short] = byte(len(key))
}

func (e *entry) is(key string) bool {
	if len(key) > short {
		return e.long == key
	}
	return int(e.name[short]) == len(key) && string(e.name[:len(key)]) == key
}

// flight is who is asking the store about a bucket.
type flight struct {
	asking  int           // calls
	units   float64       // what they ask for
	changed chan struct{} // closed when there is news; nil where nobody waits
}

// wake tells those who wait that there is news.
func (f *flight) wake() {
	if f.changed != nil {
		close(f.changed)
		f.changed = nil
	}
}

// learned makes an entry of an answer. The key is not set yet, so that an entry that turns out to be useless costs little.
func learned(op *store.Op, st *store.State, sent, got int64) entry {
	e := entry{sent: sent, got: got, rec: store.Record{
		Level: st.Level, Held: st.Held, Time: st.At.UnixMicro(), Limit: op.Limit,
	}}
	if !st.BlockedUntil.IsZero() {
		e.rec.BlockedUntil = st.BlockedUntil.UnixMicro()
	}
	e.then = e.rec.Time
	if !st.Accepted && op.CeilingAt.IsZero() {
		// A bucket's time may be ahead of a clock that was set back; then the wait is longer than the state alone explains, by
		// just that much. A microsecond or two is rounding.
		const rounding = 2 * time.Microsecond
		alone := e.rec.Refusal(op, e.then, math.MaxInt64).RetryAfter
		if lag := st.RetryAfter - alone; st.RetryAfter != store.Never && alone != store.Never && lag > rounding {
			e.then -= lag.Microseconds()
		}
	}
	e.at = e.then
	if op.Mode == store.IfFits && !st.Accepted && op.Ceiling == 0 {
		e.n, e.wait = op.Amount+op.Hold, nanoseconds(st.RetryAfter)
	} else {
		e.remember(op.Amount + op.Hold)
	}
	return e
}

// remember makes n the amount that is answered fast, and reports whether the bucket refuses it.
func (e *entry) remember(n float64) bool {
	op := store.Op{Bucket: store.Bucket{Limit: e.rec.Limit}, Amount: n}
	e.guess = true
	e.n, e.wait = n, nanoseconds(e.rec.Refusal(&op, e.then, math.MaxInt64).RetryAfter)
	return e.wait > 0
}

func nanoseconds(d time.Duration) int64 { return int64(d) } // store.Never is math.MaxInt64

// refuse answers op in st at now on our clock, if it is known not to fit. Else it leaves st as it is.
func (e *entry) refuse(op *store.Op, now, remember int64, st *store.State) bool {
	elapsed := now - e.sent
	n := op.Amount + op.Hold
	if elapsed < 0 || elapsed >= remember && n <= op.Capacity {
		return false
	}
	clock := e.then + (elapsed+999)/1000
	level := e.level(clock)
	var wait time.Duration
	switch {
	case n != e.n || op.Ceiling != 0:
		wait = e.waitFor(op, n, clock)
	case e.wait == math.MaxInt64:
		wait = store.Never
	case elapsed < e.wait:
		wait = time.Duration((e.wait-elapsed+999)/1000) * time.Microsecond
	}
	if wait == 0 {
		return false
	}
	at := max(e.rec.Time, e.at+max(0, now-e.got)/1000)
	st.Level, st.Held, st.RetryAfter = level, e.rec.Held, wait
	st.Capacity, st.LeakRate, st.Estimate = op.Capacity, op.LeakRate, true
	st.At = time.UnixMicro(at).UTC()
	if e.rec.BlockedUntil > at {
		st.BlockedUntil = time.UnixMicro(e.rec.BlockedUntil).UTC()
	}
	return true
}

// waitFor is the wait for n units when the store's clock shows clock: what [store.Record.Refusal] says, in a few nanoseconds
// where nothing is unusual.
func (e *entry) waitFor(op *store.Op, n float64, clock int64) time.Duration {
	r := &e.rec
	if over := r.Level + r.Held + n - op.Capacity; over > 0 && op.Ceiling == 0 && r.BlockedUntil <= clock && r.Held+n <= op.Capacity && r.LeakRate > 0 {
		if us := math.Ceil(over / r.LeakRate * 1e6); us < 1<<53 {
			fits := r.Time + int64(us)
			if e.level(fits)+r.Held+n <= op.Capacity && e.level(fits-1)+r.Held+n > op.Capacity {
				return time.Duration(max(0, fits-clock)) * time.Microsecond
			}
		}
	}
	return r.Refusal(op, clock, math.MaxInt64).RetryAfter
}

// level is what is left of the level when the store's clock shows clock.
func (e *entry) level(clock int64) float64 { return e.rec.LevelAt(e.rec.LeakRate, clock) }

// least is what the store's clock shows at least at now on ours.
func (e *entry) least(now int64) int64 { return e.at + max(0, now-e.got)/1000 }

// beside reports whether op may fit even if all that is being asked for is let in.
func (e *entry) beside(op *store.Op, now, remember int64) bool {
	elapsed := now - e.sent
	if elapsed < 0 || elapsed >= remember {
		return false
	}
	clock := e.then + (elapsed+999)/1000
	return e.level(clock)+e.rec.Held+e.units+op.Amount+op.Hold <= op.Capacity
}

// outdates reports whether e says more of the bucket than old does.
func (e *entry) outdates(old *entry) bool {
	switch {
	case !e.overlaps(old): // whatever the store's clock says
		return true
	case e.rec.Time != old.rec.Time:
		return e.rec.Time > old.rec.Time
	case e.rec.BlockedUntil != old.rec.BlockedUntil:
		return e.rec.BlockedUntil > old.rec.BlockedUntil
	}
	return e.rec.Level+e.rec.Held >= old.rec.Level+old.rec.Held
}

// overlaps reports whether nobody can tell which of two questions was answered first: a clock that has not moved between them
// does not tell either. One that ended before the other began and comes later all the same was asked after our clock, an
// injected one, was put back.
func (e *entry) overlaps(old *entry) bool { return e.sent <= old.got && e.got >= old.sent }
