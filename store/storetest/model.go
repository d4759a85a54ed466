package storetest

import (
	"math"
	"math/big"
	"time"

	"github.com/brimgo/brim/store"
)

// model computes the states of buckets in exact arithmetic. It shares no code with package
// store.
type model struct {
	clock   int64 // microseconds
	buckets map[string]modelBucket
	// inexact permits the store to differ by rounding: 2 units in the last place of the
	// capacity for each write. If that permits either decision, the model follows the store.
	inexact bool
}

// modelBucket is one bucket. Its numbers never change in place, so a copy is a snapshot.
type modelBucket struct {
	level, held *big.Int
	time, until int64 // time of the last write; end of the block
	limit       store.Limit
	perhaps     store.Limit // takes the place of limit if rounding has emptied the bucket, or has not; zero if it cannot
	there       bool
	slack       float64 // units by which the store may differ
}

// decision is the model's answer to one operation.
type decision struct {
	accepted, full bool
	refused        bool // not accepted, in mode IfFits
	kept           bool // a block lasted: a call that is not accepted neither sets another nor ends an old rate
	notHeld        bool
	spilled        *big.Int
	drained        *big.Int // nil: none
	wrote          bool
}

var zero, million = new(big.Int), big.NewInt(1_000_000)

// quantum is the number of binary digits after the point. Amounts are whole numbers of quanta
// of 2^-128/10^6 units, and rates are whole numbers of quanta per microsecond. So sums,
// differences and leaks are whole and exact, without fractions to reduce. No input has bits
// below 2^-128.
const quantum = 128

// quanta returns an amount of units in quanta.
func quanta(f float64) *big.Int { return new(big.Int).Mul(perMicro(f), million) }

// perMicro returns a rate in units per second in quanta per microsecond.
func perMicro(f float64) *big.Int {
	fraction, exp := math.Frexp(f)
	q := big.NewInt(int64(math.Ldexp(fraction, 53)))
	if shift := exp - 53 + quantum; shift >= 0 {
		return q.Lsh(q, uint(shift))
	} else {
		return q.Rsh(q, uint(-shift))
	}
}

// approx returns quanta in units, to the nearest double.
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

// bucket returns the bucket of key. If it does not exist, it is empty, at the clock's time.
func (m *model) bucket(key string) modelBucket {
	if b, ok := m.buckets[key]; ok {
		return b
	}
	return modelBucket{level: zero, held: zero, time: m.clock}
}

// believed returns the bucket with its time set to the clock if it is more than MaxSkew ahead,
// and reports whether it was.
func (b modelBucket) believed(clock int64) (modelBucket, bool) {
	if b.time-clock <= maxSkew.Microseconds() {
		return b, false
	}
	if b.until < store.MaxTime { // a block for ever stays for ever
		// A block that has ended by the bucket's time does not begin again.
		b.until = min(b.until, max(clock, clock+b.until-b.time))
	}
	b.time = clock
	return b, true
}

// leaked returns the level at a time that is not before the bucket's time. Past time leaks at the
// rate last written.
func (b modelBucket) leaked(now int64) *big.Int {
	if now == b.time {
		return b.level
	}
	gone := new(big.Int).Mul(perMicro(b.limit.LeakRate), big.NewInt(now-b.time))
	return larger(zero, sub(b.level, gone))
}

// endOldRate returns the bucket at the time now under a limit with another rate than the one last
// written, and reports whether the rate is another.
func (b modelBucket) endOldRate(limit store.Limit, now int64) (modelBucket, bool) {
	if b.limit == (store.Limit{}) || b.limit.LeakRate == limit.LeakRate {
		return b, false
	}
	b.level, b.time, b.limit = b.leaked(now), now, limit
	b.slack += 2 * ulp(limit.Capacity, b.slack, approx(b.level))
	return b, true
}

// heldAfter returns the held units after a change by hold units.
func (b modelBucket) heldAfter(hold *big.Int, capacity float64) (held *big.Int, ok bool) {
	held = add(b.held, hold)
	rounding := quanta(max(capacity, b.limit.Capacity) * 0x1p-40)
	switch {
	case hold.Sign() >= 0 || held.Cmp(rounding) >= 0:
		return held, true
	}
	return zero, add(held, rounding).Sign() >= 0
}

// rim returns the units that the bucket may contain after op.
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

// decide decides op on b at clock, and returns the bucket afterwards. Open decides if rounding
// permits either answer.
func (b modelBucket) decide(op store.Op, clock int64, open func(over *big.Int) (fits, sure bool)) (modelBucket, decision) {
	if op.Mode == store.Block || op.Mode == store.Unblock {
		b, wrote := b.believed(clock)
		if op.Mode == store.Unblock && b.until != 0 {
			b.until, wrote = 0, true
		}
		return b, decision{accepted: true, spilled: zero, wrote: wrote}
	}
	if op.Limit == (store.Limit{}) { // the limit last written
		if op.Limit = b.limit; b.limit == (store.Limit{}) {
			notHeld := op.Amount > 0 || op.Hold < 0
			return b, decision{accepted: !notHeld, notHeld: notHeld, spilled: zero}
		}
	}
	if op.Amount == 0 && op.Hold == 0 {
		return b, decision{accepted: true, spilled: zero}
	}
	amount, hold := quanta(op.Amount), quanta(op.Hold)
	held, ok := b.heldAfter(hold, op.Capacity)
	if !ok {
		return b, decision{notHeld: true, spilled: zero}
	}
	b, skewed := b.believed(clock)
	now := max(b.time, clock)
	leaked := b.leaked(now)
	d := decision{spilled: zero, wrote: skewed}

	over := sub(add(leaked, b.held, amount, hold), rim(op, now))
	fits, sure := open(over)
	if sure {
		fits = over.Sign() <= 0
	}
	d.kept = b.until > now
	d.accepted = fits && !d.kept || op.Mode == store.Always

	after := leaked
	switch {
	case op.Mode == store.Clamp && !fits:
		after = larger(leaked, sub(rim(op, now), b.held))
		d.spilled = sub(add(leaked, amount), after)
	case d.accepted || op.Mode == store.Clamp:
		after = larger(zero, add(leaked, amount))
	}
	nothing := op.Amount < 0 && op.Hold == 0 && leaked.Sign() == 0
	if op.Amount < 0 && op.Hold == 0 && approx(leaked) <= b.slack && op.Limit != b.limit {
		if b.perhaps = b.limit; nothing {
			b.perhaps = op.Limit
		}
	} else if !nothing {
		b.perhaps = store.Limit{}
	}
	if (d.accepted || op.Mode == store.Clamp) && !nothing {
		b.level, b.time, b.limit = after, now, op.Limit
		b.held = held
		b.slack += 2 * ulp(op.Capacity, op.Amount, op.Hold, b.slack, approx(after), approx(b.held))
		d.wrote = true
	}
	if amount.Sign() < 0 {
		d.drained = sub(leaked, after)
	}
	if d.refused = op.Mode == store.IfFits && !d.accepted; d.refused && !d.kept && op.Amount+op.Hold <= op.Capacity {
		var wrote bool
		b, wrote = b.endOldRate(op.Limit, now)
		d.wrote = d.wrote || wrote
	}
	puts := op.Hold > 0 || op.Hold == 0 && op.Amount > 0
	atRim := add(after, b.held).Cmp(quanta(op.Capacity)) >= 0
	switch {
	case op.Mode == store.Clamp:
		d.full = puts && (!fits || atRim)
	case d.accepted:
		d.full = puts && atRim
	}
	return b, d
}

// blocks reports whether op blocks its bucket.
func (d decision) blocks(op store.Op) bool {
	return op.Mode == store.Block || op.BlockFor != 0 && !d.accepted && !d.kept
}

// block sets the block of an operation that blocks its bucket. Until is the store's answer: with
// UntilEmpty it is rounded up to a microsecond and may be a microsecond late.
func (b modelBucket) block(op store.Op, clock int64, until time.Time) (modelBucket, bool) {
	now := max(b.time, clock)
	end := now + op.BlockFor.Microseconds()
	left := b.leaked(now)
	switch rate := perMicro(b.limit.LeakRate); {
	case op.BlockFor != store.UntilEmpty:
	case left.Sign() == 0:
		end = now
	case rate.Sign() == 0:
		end = store.MaxTime
	default:
		wait := add(left, rate, big.NewInt(-1)) // rounded up
		end = now + wait.Quo(wait, rate).Int64()
		if off := until.UnixMicro() - end; off >= -1-b.slackMicros() && off <= 1+b.slackMicros() {
			end = until.UnixMicro()
		}
	}
	if end = min(end, store.MaxTime); end <= max(b.until, now) {
		return b, false
	}
	b.until = end
	if b.limit == (store.Limit{}) {
		b.limit = op.Limit
	}
	return b, true
}

// slackMicros returns the microseconds in which the slack leaks.
func (b modelBucket) slackMicros() int64 {
	if b.limit.LeakRate == 0 {
		return 0
	}
	return int64(math.Ceil(b.slack / b.limit.LeakRate * 1e6))
}

// expired reports whether the bucket may be pruned.
func (b modelBucket) expired(clock int64) bool {
	past := clock - maxSkew.Microseconds()
	leaks := b.limit.LeakRate != 0 || b.limit == (store.Limit{})
	return b.there && b.held.Sign() == 0 && b.until <= past && b.time <= past && leaks && b.leaked(past).Sign() == 0
}

// wouldFit reports whether ops fit into b at clock, one after the other, give or take slack
// units. RetryAfter promises that they do.
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
		if d.blocks(op) {
			after, _ = after.block(op, clock, time.Time{})
		}
		b = after
	}
	return true
}

// exactly never lets rounding decide.
func exactly(*big.Int) (fits, sure bool) { return false, true }

// ulp returns the unit in the last place of the sum of the magnitudes.
func ulp(f ...float64) float64 {
	sum := 0.0
	for _, x := range f {
		sum += math.Abs(x)
	}
	return math.Nextafter(sum, math.Inf(1)) - sum
}
