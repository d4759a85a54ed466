package store

import (
	"errors"
	"math"
	"time"
)

// DefaultMaxSkew is the MaxSkew of a backend whose options do not set one. A stored time that
// is further ahead of the clock is set to the clock; see [Record.Fill].
const DefaultMaxSkew = 5 * time.Minute

// Record is the stored form of a bucket. Times are microseconds since the Unix epoch, on the
// store's clock. The methods do not lock: a backend must not use one Record from several
// goroutines at once.
type Record struct {
	Level        float64 // units that leak, at Time
	Held         float64 // units that do not leak
	Time         int64   // time of Level: the last write, unless the leak was lost in rounding
	Limit                // limit last written
	BlockedUntil int64   // nothing fits before; 0 if no block was ever set
}

// Effect is a set of flags that tell a backend how to treat a record after a call.
type Effect uint8

const (
	// Write means that the record changed and must be stored.
	Write Effect = 1 << iota
	// Skewed means that the stored time was more than MaxSkew ahead of the clock and was set to
	// the clock. A backend should log it.
	Skewed
)

// NewRecord returns the record of a bucket that does not exist: empty, at time clock.
func NewRecord(clock int64) Record { return Record{Time: clock} }

// Fill decides op at time clock and changes the record accordingly. The backend stores the
// record if the Effect contains [Write]. The error is [ErrNotHeld] or [errors.ErrUnsupported],
// and leaves the record unchanged.
//
//	now     = max(Time, clock)
//	before  = LevelAt(LeakRate of op, now)
//	fits(n) = n == 0  or  before + Held + n <= Capacity of op, and no block lasts beyond now
//
// If the record is written, Time becomes now, unless the leak was too small to change the
// level. Then Time stays, so that small leaks add up instead of being lost in rounding.
//
// If the clock has stepped back by at most maxSkew, nothing leaks. If Time is further ahead of
// the clock, Fill sets Time to clock, even if op is refused. The level and the remaining
// duration of a block stay.
//
// In the other modes, an op with neither Amount nor Hold is accepted and changes nothing.
//
// The modes [Ask], [Block] and [Unblock] put nothing in. Ask never changes the record. Block and
// Unblock change BlockedUntil, and a Time that is more than maxSkew ahead; Block also sets the
// limit of a bucket that did not exist.
func (r *Record) Fill(op *Op, clock int64, maxSkew time.Duration) (st State, effect Effect, err error) {
	effect, err = r.FillTo(&st, op, clock, maxSkew)
	return st, effect, err
}

// FillTo is [Record.Fill] with the state written to *st, which must be zero. Fill writes the
// fields of a State one by one and then returns a copy of it, and the processor waits with the
// copy until the writes are complete. For a backend in memory that wait takes a seventh of the
// time of a decision.
func (r *Record) FillTo(st *State, op *Op, clock int64, maxSkew time.Duration) (effect Effect, err error) {
	if op.Mode > Always {
		*st, effect, err = r.special(op, clock, maxSkew)
		return effect, err
	}
	if op.Amount == 0 && op.Hold == 0 {
		*st = r.State(op.Limit, clock, maxSkew)
		st.Accepted = true
		return 0, nil
	}
	if r.Held+op.Hold < 0 {
		return 0, ErrNotHeld
	}
	effect = r.unskew(clock, maxSkew)
	now := max(r.Time, clock)
	before, last := r.LevelAt(op.LeakRate, now), now
	if before == r.Level && before > 0 && op.LeakRate > 0 {
		last = r.Time // the leak was lost in rounding, so the next call counts it from here again
	}
	n, rim := op.Amount+op.Hold, op.rim(now)
	blocked := r.BlockedUntil > now
	room := before+r.Held+n <= rim
	accepted := op.Mode == Always || (room && !blocked)

	var spilled float64
	level := before
	switch {
	case op.Mode == Clamp && !room:
		level = max(before, rim-r.Held)
		spilled = before + n - level
	case accepted, op.Mode == Clamp: // a block does not keep out an event that has happened
		level = max(0, before+op.Amount)
	}
	// A drain of an empty bucket changes nothing.
	idle := op.Amount < 0 && op.Hold == 0 && before == 0
	if (accepted || op.Mode == Clamp) && !idle {
		r.Level, r.Time, r.Limit = level, last, op.Limit
		r.Held += op.Hold
		effect |= Write
	}
	if !accepted && op.BlockFor != 0 {
		effect |= r.block(op, now)
	}

	st.Level, st.Held, st.Capacity, st.LeakRate = level, r.Held, op.Capacity, op.LeakRate
	st.Spilled, st.At, st.Accepted = spilled, toTime(now), accepted
	if r.BlockedUntil > now {
		st.BlockedUntil = toTime(r.BlockedUntil)
	}
	switch {
	case !accepted:
		st.Full = op.Mode == Clamp && (!room || level+r.Held >= op.Capacity)
		st.RetryAfter = r.wait(op, n, clock, rim)
	case op.Hold > 0, op.Hold == 0 && op.Amount > 0:
		st.Full = level+r.Held >= op.Capacity
	}
	return effect, nil
}

// special is Fill for the modes that put nothing in.
func (r *Record) special(op *Op, clock int64, maxSkew time.Duration) (st State, effect Effect, err error) {
	switch op.Mode {
	case Ask:
		trial, try := *r, *op
		try.Mode = IfFits
		var would State
		would, _, err = trial.Fill(&try, clock, maxSkew)
		st = r.State(op.Limit, clock, maxSkew)
		st.Accepted, st.RetryAfter = would.Accepted, would.RetryAfter
		return st, 0, err
	case Block:
		effect = r.unskew(clock, maxSkew)
		effect |= r.block(op, max(r.Time, clock))
	case Unblock:
		effect = r.unskew(clock, maxSkew)
		if r.BlockedUntil != 0 { // also of a block that is over: the clock may step back
			r.BlockedUntil = 0
			effect |= Write
		}
	default:
		return State{}, 0, errors.ErrUnsupported
	}
	st = r.State(op.Limit, clock, maxSkew)
	st.Accepted = true
	return st, effect, nil
}

// State reports the state of the bucket at time clock by limit, or by the limit last written if
// limit is zero. It changes nothing.
func (r Record) State(limit Limit, clock int64, maxSkew time.Duration) State {
	if limit == (Limit{}) {
		limit = r.Limit
	}
	r.unskew(clock, maxSkew)
	now := max(r.Time, clock)
	st := State{
		Level: r.LevelAt(limit.LeakRate, now), Held: r.Held,
		Capacity: limit.Capacity, LeakRate: limit.LeakRate, At: toTime(now),
	}
	if r.BlockedUntil > now {
		st.BlockedUntil = toTime(r.BlockedUntil)
	}
	return st
}

// Refusal returns the state of an operation that was refused, with its RetryAfter. The record
// is the bucket as the refusal left it. Refusal is for wrappers, and for backends that decide
// elsewhere than in [Record.Fill].
func (r Record) Refusal(op *Op, clock int64, maxSkew time.Duration) State {
	r.unskew(clock, maxSkew)
	st := r.State(op.Limit, clock, maxSkew)
	st.RetryAfter = r.wait(op, op.Amount+op.Hold, clock, op.rim(max(r.Time, clock)))
	return st
}

// Expired reports whether the record may be pruned at time clock: nothing is held or blocked,
// and maxSkew ago the bucket was already empty by the limit last written. If the clock then
// steps back by less than maxSkew, all answers are the same with and without the record. A
// bucket that does not leak never expires.
func (r Record) Expired(clock int64, maxSkew time.Duration) bool {
	past := clock - maxSkew.Microseconds()
	if r.LeakRate == 0 || r.Held > 0 || r.BlockedUntil > past || r.Time > past {
		return false
	}
	return r.LevelAt(r.LeakRate, past) == 0
}

// LevelAt reports the units that are left of Level at the time now, in microseconds on the
// store's clock, if the bucket leaks rate units per second. It never reports less than zero. If
// now is before Time, nothing has leaked.
//
// All levels are computed here. Code that computes a level elsewhere, for instance in SQL, must
// carry out the same operations in the same order:
//
//	max(0, Level - rate * ((now - Time) / 1e6))
func (r *Record) LevelAt(rate float64, now int64) float64 {
	if now <= r.Time {
		return r.Level // a busy key is often filled twice in a microsecond: skip the division
	}
	return max(0, r.Level-leaked(rate, now-r.Time))
}

// leaked returns the units that leak in us microseconds at rate. The conversion keeps the
// compiler from fusing the product with the caller's subtraction: a fused multiply-add rounds
// once, and SQL rounds twice.
func leaked(rate float64, us int64) float64 { return float64(rate * (float64(us) / 1e6)) }

// unskew sets a Time that is more than maxSkew ahead of clock to clock. A block keeps the
// duration that it had left at the stored time.
func (r *Record) unskew(clock int64, maxSkew time.Duration) Effect {
	if r.Time-clock <= maxSkew.Microseconds() {
		return 0
	}
	// A block that was over stays over, although its end may be ahead of the clock.
	if r.BlockedUntil > clock {
		r.BlockedUntil = clock + max(0, r.BlockedUntil-r.Time)
	}
	r.Time = clock
	return Write | Skewed
}

// block sets or prolongs the block after an operation that did not fit, and returns Write if
// that changed the record.
func (r *Record) block(op *Op, now int64) Effect {
	d := op.BlockFor
	if d == UntilEmpty {
		d = State{Level: r.LevelAt(op.LeakRate, now), LeakRate: op.LeakRate}.TimeToEmpty()
	}
	until := now + d.Microseconds()
	if until <= max(r.BlockedUntil, now) {
		return 0
	}
	r.BlockedUntil = until
	if r.Limit == (Limit{}) { // the bucket did not exist before its block
		r.Limit = op.Limit
	}
	return Write
}

// rim returns the units that the bucket may contain after op: the capacity, or a ceiling below
// it.
func (o *Op) rim(now int64) float64 {
	if o.Ceiling == 0 {
		return o.Capacity
	}
	return o.lowered(now)
}

// lowered is rim for an operation with a ceiling.
func (o *Op) lowered(now int64) float64 {
	ceiling := o.Ceiling
	if !o.CeilingAt.IsZero() {
		// The clock can be behind CeilingAt after it jumped forward and was set right. A
		// ceiling does not rise.
		ceiling -= leaked(o.LeakRate, max(0, now-o.CeilingAt.UnixMicro()))
	}
	return min(o.Capacity, ceiling)
}

// wait returns the time after clock until n units fit into the bucket as the record describes
// it.
func (r *Record) wait(op *Op, n float64, clock int64, rim float64) time.Duration {
	us := r.roomAfter(op.LeakRate, n, rim, max(r.Time, clock)-r.Time)
	switch {
	case us < 0, us > 0 && !op.CeilingAt.IsZero(): // the ceiling sinks as fast as the level
		return Never
	case us > 0:
		us += r.Time - clock
	}
	if r.BlockedUntil > max(r.Time, clock) {
		us = max(us, r.BlockedUntil-clock)
	}
	if us > maxWait {
		return Never
	}
	return time.Duration(us) * time.Microsecond
}

// roomAfter returns the number of microseconds after r.Time after which n units first fit under
// rim. It returns 0 if they fit now, which is elapsed microseconds after r.Time, and -1 if they
// never fit. A division estimates the time. Because of rounding the estimate can be wrong, so
// roomAfter checks it against the rule.
func (r *Record) roomAfter(rate, n, rim float64, elapsed int64) int64 {
	fits := func(us int64) bool {
		return r.LevelAt(rate, r.Time+us)+r.Held+n <= rim
	}
	if fits(elapsed) {
		return 0
	}
	guess := math.Ceil((r.Level + r.Held + n - rim) / rate * 1e6)
	if r.Held+n > rim || rate == 0 || !(guess < math.MaxInt64/2) {
		return -1
	}
	// Bracket the first fit between lo, when n does not fit, and hi, when n fits.
	lo, hi := elapsed, max(elapsed+1, int64(guess))
	for step := int64(1); !fits(hi); step *= 2 {
		if hi > math.MaxInt64/2 {
			return -1
		}
		lo, hi = hi, hi+step
	}
	for step := int64(1); hi-step > lo; step *= 2 {
		if !fits(hi - step) {
			lo = hi - step
			break
		}
		hi -= step
	}
	for hi-lo > 1 {
		mid := lo + (hi-lo)/2
		if fits(mid) {
			hi = mid
		} else {
			lo = mid
		}
	}
	return hi
}

func toTime(us int64) time.Time { return time.UnixMicro(us).UTC() }
