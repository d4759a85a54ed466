package storetest

import (
	"math"
	"math/big"
	"time"

	"github.com/brimgo/brim/store"
)

// model is what buckets do, in exact arithmetic. It shares no code with package store.
type model struct {
	clock   int64 // microseconds
	buckets map[string]modelBucket
	// inexact allows the store to differ by what semantics grants to rounding: 2 units in the capacity's last place for
	// each write. Where that leaves a decision open, the model follows the store.
	inexact bool
}

// modelBucket is one bucket. Its numbers are never changed in place, so that a copy is a snapshot.
type modelBucket struct {
	level, held *big.Int
	time, until int64 // of the last write; blocked before
	limit       store.Limit
	there       bool
	slack       float64 // how far the store may be off
}

// decision is what the model says of one operation.
type decision struct {
	accepted, full bool
	refused        bool // in mode IfFits
	notHeld        bool
	spilled        *big.Int
	wrote          bool
}

var zero, million = new(big.Int), big.NewInt(1_000_000)

// Amounts are whole numbers of quanta, of 2^-128/10^6 units, and rates are quanta per microsecond: then sums, differences and
// leaks are whole too, and exact, without fractions to reduce. No input has bits below 2^-128.
const quantum = 128

// quanta converts an amount.
func quanta(f float64) *big.Int { return new(big.Int).Mul(perMicro(f), million) }

// perMicro converts a rate per second.
func perMicro(f float64) *big.Int {
	fraction, exp := math.Frexp(f)
	q := big.NewInt(int64(math.Ldexp(fraction, 53)))
	if shift := exp - 53 + quantum; shift >= 0 {
		return q.Lsh(q, uint(shift))
	} else {
		return q.Rsh(q, uint(-shift))
	}
}

// approx converts back, to the nearest double.
func approx(q *big.Int) float64 {
	f, _ := new(big.Float).Quo(new(big.Float).SetInt(q), new(big.Float).SetInt(million)).Float64()
	return math.Ldexp(f, -quantum)
}

func add(a ...*big.Int) *big.Int {
	sum := new(big.Int)
	for _, q := range a {
		sum.Add(sum, q)
	}
	return sum
}

func sub(a, b *big.Int) *big.Int { return new(big.Int).Sub(a, b) }

func larger(a, b *big.Int) *big.Int {
	if a.Cmp(b) < 0 {
		return b
	}
	return a
}

// bucket returns the bucket as it is kept; one that is not there is empty, with T = clock.
func (m *model) bucket(key string) modelBucket {
	if b, ok := m.buckets[key]; ok {
		return b
	}
	return modelBucket{level: zero, held: zero, time: m.clock}
}

// believed returns the bucket with a time that is more than MaxSkew ahead of the clock set to it.
func (b modelBucket) believed(clock int64) (modelBucket, bool) {
	if b.time-clock <= maxSkew.Microseconds() {
		return b, false
	}
	if b.until > b.time {
		b.until = clock + b.until - b.time
	}
	b.time = clock
	return b, true
}

// leaked is the level at a time that is not before b's.
func (b modelBucket) leaked(rate float64, now int64) *big.Int {
	if now == b.time {
		return b.level
	}
	gone := new(big.Int).Mul(perMicro(rate), big.NewInt(now-b.time))
	return larger(zero, sub(b.level, gone))
}

// rim is what the operation lets the bucket hold.
func rim(op store.Op, now int64) *big.Int {
	c := quanta(op.Capacity)
	if op.Ceiling == 0 {
		return c
	}
	ceiling := quanta(op.Ceiling)
	if !op.CeilingAt.IsZero() {
		ceiling.Sub(ceiling, new(big.Int).Mul(perMicro(op.LeakRate), big.NewInt(max(0, now-op.CeilingAt.UnixMicro()))))
	}
	if ceiling.Cmp(c) < 0 {
		return ceiling
	}
	return c
}

// decide says what op does to b at clock. Open decides where rounding leaves room for either answer.
func (b modelBucket) decide(op store.Op, clock int64, open func(over *big.Int) (fits, sure bool)) (modelBucket, decision) {
	if op.Amount == 0 && op.Hold == 0 {
		return b, decision{accepted: true, spilled: zero}
	}
	amount, hold := quanta(op.Amount), quanta(op.Hold)
	missing := new(big.Int).Neg(add(b.held, hold))
	if held, sure := open(missing); hold.Sign() < 0 && (sure && missing.Sign() > 0 || !sure && !held) {
		return b, decision{notHeld: true, spilled: zero}
	}
	b, skewed := b.believed(clock)
	now := max(b.time, clock)
	leaked := b.leaked(op.LeakRate, now)
	d := decision{spilled: zero, wrote: skewed}

	over := sub(add(leaked, b.held, amount, hold), rim(op, now))
	fits, sure := open(over)
	if sure {
		fits = over.Sign() <= 0
	}
	d.accepted = fits && b.until <= now || op.Mode == store.Always

	after := leaked
	switch {
	case op.Mode == store.Clamp && !fits:
		after = larger(leaked, sub(rim(op, now), b.held))
		d.spilled = sub(add(leaked, amount), after)
	case d.accepted || op.Mode == store.Clamp:
		after = larger(zero, add(leaked, amount))
	}
	nothing := op.Amount < 0 && op.Hold == 0 && leaked.Sign() == 0
	if (d.accepted || op.Mode == store.Clamp) && !nothing {
		b.level, b.time, b.limit = after, now, op.Limit
		b.held = larger(zero, add(b.held, hold))
		b.slack += 2 * ulp(op.Capacity, op.Amount, op.Hold, b.slack, approx(after), approx(b.held))
		d.wrote = true
	}
	d.refused = op.Mode == store.IfFits && !d.accepted
	puts := op.Hold > 0 || op.Hold == 0 && op.Amount > 0
	atRim := add(b.leaked(op.LeakRate, now), b.held).Cmp(quanta(op.Capacity)) >= 0
	switch {
	case op.Mode == store.Clamp:
		d.full = puts && (!fits || atRim)
	case d.accepted:
		d.full = puts && atRim
	}
	return b, d
}

// block sets the penalty of an operation that did not fit. Until is what the store answers: UntilEmpty rounds up to a
// microsecond, and may be one late.
func (b modelBucket) block(op store.Op, clock int64, until time.Time) (modelBucket, bool) {
	now := max(b.time, clock)
	end := now + op.BlockFor.Microseconds()
	if op.BlockFor == store.UntilEmpty {
		rate := perMicro(op.LeakRate)
		wait := add(b.leaked(op.LeakRate, now), rate, big.NewInt(-1)) // rounded up
		end = now + wait.Quo(wait, rate).Int64()
		if off := until.UnixMicro() - end; off >= -1-b.slackMicros(op.LeakRate) && off <= 1+b.slackMicros(op.LeakRate) {
			end = until.UnixMicro()
		}
	}
	if end <= max(b.until, now) {
		return b, false
	}
	b.until = end
	if b.limit == (store.Limit{}) {
		b.limit = op.Limit
	}
	return b, true
}

// slackMicros is how long the slack takes to leak.
func (b modelBucket) slackMicros(rate float64) int64 {
	if rate == 0 {
		return 0
	}
	return int64(math.Ceil(b.slack / rate * 1e6))
}

// expired reports whether the bucket may be pruned.
func (b modelBucket) expired(clock int64) bool {
	past := clock - maxSkew.Microseconds()
	return b.there && b.held.Sign() == 0 && b.until <= past && b.time <= past && b.limit.LeakRate != 0 &&
		b.leaked(b.limit.LeakRate, past).Sign() == 0
}

// wouldFit reports whether ops, one after the other, all go into b at clock, give or take slack units: what RetryAfter
// promises.
func (b modelBucket) wouldFit(ops []store.Op, clock int64, slack float64) bool {
	open := exactly
	if slack != 0 {
		open = func(over *big.Int) (fits, sure bool) { return approx(over) <= slack, false }
	}
	for _, op := range ops {
		if op.Mode == store.Clamp && len(ops) == 1 {
			op.Mode = store.IfFits
		}
		after, d := b.decide(op, clock, open)
		if d.refused || d.notHeld {
			return false
		}
		if op.BlockFor != 0 && !d.accepted {
			after, _ = after.block(op, clock, time.Time{})
		}
		b = after
	}
	return true
}

// exactly leaves nothing open.
func exactly(*big.Int) (fits, sure bool) { return false, true }

// ulp is the unit in the last place of the sum of all these magnitudes.
func ulp(f ...float64) float64 {
	sum := 0.0
	for _, x := range f {
		sum += math.Abs(x)
	}
	return math.Nextafter(sum, math.Inf(1)) - sum
}
