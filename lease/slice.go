package lease

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/brimgo/brim/store"
)

// slice is what a process may still serve of one bucket without asking.
//
// # The rule
//
// A process keeps an account for the bucket. A slice of S goes onto it at the moment it is asked for, and the account leaks at
// the bucket's full leak rate r. Serving changes nothing in it. What is unused of the slices is never more than the account:
// what the account loses when all of it is unused, the unused lose with it. A process serves from the unused only, and from
// a slice only once it is granted. What is still unused a second after the last slice came is given up: the rule does not
// need that, but it bounds how long units are out.
//
// # Why that is safe
//
// Let L be the bucket's level. For the proof let W be another bucket, which nobody keeps: each unit goes into it when it is
// served, by whatever process, from a slice or by the store itself, and it leaks at r. On a process's account, let a be the
// unused of slices that were granted, b what is left of the one that was asked for last, which waits for its answer or to be
// put to use, and w the rest, so that account = w + a + b. What the account leaks is taken from w first, then from a, then
// from b.
//
// First, w <= W for each process. w starts at 0; it grows only as units are served, which grow W by as much; and until it is 0
// it leaks at least at r, while W leaks at r at most.
//
// Second, W + (the sum of all a, and of those b that were granted) <= L, always. Call the left side T.
//   - A grant adds S to L, and b <= S to T.
//   - Putting b to use moves it to a. Serving moves it from a to W. A fill that the store decides by itself adds the same to W
//     and to L. What others put in without asking adds to L alone. A crash, a slice that is given up, an answer that never
//     arrives take from T alone.
//   - Time takes r from L at most, and nothing once L is 0. It takes r from T at least, as long as T > 0: if W > 0, W leaks. If
//     W = 0, every w is 0 by the first step; some account has an a or a granted b, and it leaks: a if there is one, else b.
//
// Third, T <= c, the capacity. T grows only in what the store decides with TryFillup, after which T <= L <= c.
//
// So W <= c at all times, and W is a bucket that leaks at r: in any window what is served, which is what W takes, is at most
// c + r * its length. That is what the bucket promises without leases. Units drained or released lower L and not T, and allow
// as many more, as the store alone does.
//
// Fourth, for the other direction: L - W <= share * c. A slice is only granted where L is at most that afterwards; fills that
// the store decides by itself, which may take L beyond it, leave L - W as it is; and time takes no more from W than from L.
// So where the store refuses n because L + n > c, W + n > (1 - share) * c.
//
// The times of all this are the store's. A process whose clock ran slower than the store's would leak too little; so it counts
// the longer of two clocks, and leaks a thousandth faster, which also covers what rounding does.
type slice struct {
	start   instant
	unused  float64 // units, at start
	account float64 // units, at start; at least unused
	rate    float64 // units per nanosecond

	// What the store last said, for states.
	level, held float64
	at          int64 // microseconds
	asked, got  instant

	_         [64]byte      // what is never written shares no cache line with what always is
	gone      atomic.Uint64 // bits of units
	leaked    atomic.Uint64 // of gone, the units that were lost: only for judging demand
	refilling atomic.Bool   // somebody has seen to what comes next
}

// instant is a reading of both clocks, in nanoseconds.
type instant struct{ mono, wall int64 }

// since is how long ago start was, by the clock that says longer; never negative.
func (t instant) since(start instant) int64 {
	return max(t.mono-start.mono, t.wall-start.wall, 0)
}

// fast is by how much the account leaks faster than the bucket.
const fast = 1 + 1.0/1024

func perNano(rate float64) float64 { return rate * fast / 1e9 }

// closed is the gone of a slice that nobody may serve from any more.
var closed = math.Inf(1)

// serve takes n units out of the slice, or reports that they are not in it.
//
// Gone is what was served, or lost because the account had leaked below it. The account is always computed from the start: a
// leak that is subtracted bit by bit may round to nothing (trap 23). Between two calls the account only falls, so what it is
// now bounds what was unused at any time between.
func (l *slice) serve(n float64, now instant) bool {
	elapsed := now.since(l.start)
	if elapsed > int64(longest) {
		return false
	}
	account := l.account - l.rate*float64(elapsed)
	for {
		bits := l.gone.Load()
		gone := math.Float64frombits(bits)
		if gone == closed {
			return false
		}
		lost := max(gone, l.unused-account)
		if !(lost+n <= l.unused) {
			return false
		}
		if l.gone.CompareAndSwap(bits, math.Float64bits(lost+n)) {
			if lost > gone {
				addTo(&l.leaked, lost-gone)
			}
			return true
		}
	}
}

func addTo(f *atomic.Uint64, x float64) {
	for {
		bits := f.Load()
		if f.CompareAndSwap(bits, math.Float64bits(math.Float64frombits(bits)+x)) {
			return
		}
	}
}

// low reports whether it is time to think of the next slice: half of this one is gone.
func (l *slice) low() bool {
	return !l.refilling.Load() && math.Float64frombits(l.gone.Load()) >= l.unused/2
}

// end closes the slice and returns what is on the account, what is unused of it, and what was served. A nil slice is empty.
func (l *slice) end(now instant) (account, unused, served float64) {
	if l == nil {
		return 0, 0, 0
	}
	gone := math.Float64frombits(l.gone.Swap(math.Float64bits(closed)))
	if gone == closed {
		return 0, 0, 0
	}
	served = gone - math.Float64frombits(l.leaked.Load())
	account = l.accountAt(now)
	if now.since(l.start) > int64(longest) {
		return account, 0, served
	}
	return account, max(0, min(l.unused-gone, account)), served
}

// served is what was served so far.
func (l *slice) served() float64 {
	if l == nil {
		return 0
	}
	gone := math.Float64frombits(l.gone.Load())
	if gone == closed {
		return 0
	}
	return max(0, gone-math.Float64frombits(l.leaked.Load()))
}

// accountAt is what is on the account. Nil is empty.
func (l *slice) accountAt(now instant) float64 {
	if l == nil {
		return 0
	}
	return max(0, l.account-l.rate*float64(now.since(l.start)))
}

// grant is a slice that was asked for.
type grant struct {
	size            float64
	asked, answered instant
	account         float64 // what was on the account when it was asked for, without it
}

// next returns the slice that follows l, and closes l: what is left of both. It also returns what l has served.
func (l *slice) next(g grant, limit store.Limit, st *store.State) (after *slice, served float64) {
	rate := perNano(limit.LeakRate)
	account, unused, served := l.end(g.answered)
	left := max(0, g.size-max(0, rate*float64(g.answered.since(g.asked))-g.account))
	return &slice{
		start: g.answered, unused: unused + left, account: account + left, rate: rate,
		level: st.Level, held: st.Held, at: st.At.UnixMicro(), asked: g.asked, got: g.answered,
	}, served
}

// state is the answer to what was served: the bucket as the store last showed it, less what has leaked since.
func (l *slice) state(st *store.State, op *store.Op, now instant) {
	st.Level = max(0, l.level-op.LeakRate*float64(now.since(l.asked))/1e9)
	st.Held, st.Capacity, st.LeakRate = l.held, op.Capacity, op.LeakRate
	st.At = time.UnixMicro(l.at + max(0, now.mono-l.got.mono)/1000).UTC()
	st.Accepted, st.Estimate = true, true
}
