package local

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/brimgo/brim/store"
)

// allotment is a number of units of one bucket that this process may serve without asking the
// store.
//
// # The rule
//
// A process keeps a balance for each leased bucket. When it asks for an allotment of S units, it
// adds S to the balance. The balance leaks at the bucket's full leak rate r and stops at zero.
// Serving does not change the balance. The process serves units of granted allotments only. The
// unused units never exceed the balance: if the balance falls below them, the difference lapses.
//
// All units that are unused one second after the last allotment came lapse, too. The proof does
// not need this rule, which limits how long unused units fill the bucket.
//
// # Why the rule is safe
//
// Let L be the level of the bucket and c its capacity. For the proof, let W be the level of a
// second bucket that nobody stores. It leaks at r. A unit enters it when the unit is served, by
// any process, from an allotment or by the store itself. Split the balance of a process into w +
// a + b: a is the unused units of granted allotments; b is the rest of the allotment that the
// process asked for last, until the answer has come and the allotment is in use; w is the
// remainder. The leak of the balance takes units from w first, then from a, then from b.
//
// First: w <= W for each process. w starts at 0. It grows only when units are served, and W then
// grows by as much. Until w is 0, w leaks at r or faster, and W leaks at r or slower.
//
// Second: T <= L at all times, where T is W plus all a, plus each b that the store has granted.
//   - A grant adds S to L, and b <= S to T.
//   - Putting an allotment to use moves units from b to a. Serving moves units from a to W. A
//     fill that the store decides by itself adds the same to W and to L. A Fillup, which goes in
//     without a decision, adds to L alone. A crash, a lapse and a lost answer take units from T
//     alone.
//   - Time takes at most r from L, and nothing once L is 0. While T > 0, time takes at least r
//     from T: if W > 0, W leaks. If W = 0, every w is 0 by the first step, so some balance has an
//     a or a granted b, which leaks.
//
// Third: T <= c. T grows only when the store accepts a TryFillup, and then T <= L <= c.
//
// So W <= c at all times, and W is the level of a bucket that leaks at r. In any window, the
// units that are served are the units that enter W: at most c + r * the length of the window. The
// bucket promises the same without leases. A drain or a release lowers L and not T, and admits as
// many further units as it does without leases.
//
// # How much the rule wastes
//
// L - W <= share * c, if W counts the units of Fillups, too. The store grants an allotment only
// if L is at most share * c afterwards. Fills that the store decides by itself may raise L
// further, but they leave L - W unchanged. Time takes no more from W than from L. So if the store
// refuses n units because L + n > c, then W + n > (1 - share) * c.
//
// # Clocks
//
// All times above are times of the store's clock. A process whose clock runs slower would leak
// too little. So a process takes the longer time of two clocks, and leaks a thousandth faster.
// This margin also covers rounding.
type allotment struct {
	start   instant // of its use: the arrival of the store's answer
	units   float64 // that may be served, at start
	balance float64 // units, at start; at least units
	rate    float64 // units per nanosecond at which the balance leaks

	// The store's answer to the request, for the states of served calls.
	bucket store.Record
	asked  instant

	_          [64]byte      // separates fields that are never written from fields that always are
	spent      atomic.Uint64 // float64 bits: units that were served or have lapsed
	lapsed     atomic.Uint64 // float64 bits: the part of spent that lapsed; only demand needs it
	prefetched atomic.Bool   // a caller has requested the next allotment
}

// instant is a reading of both clocks of this machine, in nanoseconds.
type instant struct{ mono, wall int64 }

// since returns the nanoseconds from start to t, on the clock that shows more. The result is
// never negative.
func (t instant) since(start instant) int64 {
	return max(t.mono-start.mono, t.wall-start.wall, 0)
}

// margin is the factor by which a balance leaks faster than its bucket.
const margin = 1 + 1.0/1024

// ended is the value of spent once nobody may serve from the allotment any more.
var ended = math.Inf(1)

// serve takes n units out of the allotment, or only reports whether it could, if ask is set. It
// returns false if the allotment is nil or has fewer units.
//
// serve computes the balance from its value at start, because a leak that is subtracted in small
// steps may round to nothing. Between two calls the balance only falls, so its value at the later
// call bounds the unused units at all times between the calls.
func (l *allotment) serve(n float64, now instant, ask bool) bool {
	if l == nil {
		return false
	}
	elapsed := now.since(l.start)
	if elapsed > int64(maxAge) {
		return false
	}
	balance := l.balance - l.rate*float64(elapsed)
	for {
		bits := l.spent.Load()
		spent := math.Float64frombits(bits)
		if spent == ended {
			return false
		}
		before := max(spent, l.units-balance)
		if !(before+n <= l.units) {
			return false
		}
		if ask {
			return true
		}
		if l.spent.CompareAndSwap(bits, math.Float64bits(before+n)) {
			if before > spent {
				addTo(&l.lapsed, before-spent)
			}
			return true
		}
	}
}

// addTo adds x to the float64 whose bits f holds.
func addTo(f *atomic.Uint64, x float64) {
	for {
		bits := f.Load()
		if f.CompareAndSwap(bits, math.Float64bits(math.Float64frombits(bits)+x)) {
			return
		}
	}
}

// low reports whether half of the allotment is spent and nobody has requested the next one.
func (l *allotment) low() bool {
	return !l.prefetched.Load() && math.Float64frombits(l.spent.Load()) >= l.units/2
}

// allowPrefetch lets the next caller that finds the allotment low request another. The receiver
// may be nil.
func (l *allotment) allowPrefetch() {
	if l != nil {
		l.prefetched.Store(false)
	}
}

// end ends the allotment. It returns the balance, the units that are unused and the units that
// were served. A nil allotment is empty.
func (l *allotment) end(now instant) (balance, unused, served float64) {
	if l == nil {
		return 0, 0, 0
	}
	spent := math.Float64frombits(l.spent.Swap(math.Float64bits(ended)))
	if spent == ended {
		return 0, 0, 0
	}
	served = spent - math.Float64frombits(l.lapsed.Load())
	balance = l.balanceAt(now)
	if now.since(l.start) > int64(maxAge) {
		return balance, 0, served
	}
	return balance, max(0, min(l.units-spent, balance)), served
}

// served returns the units that were served so far. A nil or ended allotment has served none.
func (l *allotment) served() float64 {
	if l == nil {
		return 0
	}
	spent := math.Float64frombits(l.spent.Load())
	if spent == ended {
		return 0
	}
	return max(0, spent-math.Float64frombits(l.lapsed.Load()))
}

// balanceAt returns the balance at now. The balance of a nil allotment is 0.
func (l *allotment) balanceAt(now instant) float64 {
	if l == nil {
		return 0
	}
	return max(0, l.balance-l.rate*float64(now.since(l.start)))
}

// state writes the answer to a served op into st: the bucket as the store last showed it, less
// the leak since.
func (l *allotment) state(st *store.State, op *store.Op, now instant) {
	st.Level = l.bucket.LevelAt(l.bucket.Time + (now.since(l.asked)+999)/1000)
	st.Held, st.Capacity, st.LeakRate = l.bucket.Held, op.Capacity, op.LeakRate
	st.At = time.UnixMicro(l.bucket.Time + max(0, now.mono-l.start.mono)/1000).UTC()
	st.Accepted, st.Estimate = true, true
}
