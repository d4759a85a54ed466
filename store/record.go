package store

import (
	"errors"
	"math"
	"time"
)

// DefaultMaxSkew is how far ahead of the clock a bucket's stored time may be before it is no longer believed, where a
// backend's options do not say otherwise.
const DefaultMaxSkew = 5 * time.Minute

// Record is what a backend keeps of a bucket. Times are microseconds since the Unix epoch, on the store's clock.
type Record struct {
	Level        float64 // units that leak, at Time
	Held         float64 // units that do not
	Time         int64   // of the last write that changed the level by more than rounding
	Limit                // last written
	BlockedUntil int64   // nothing fits before; 0 where no block was ever set
}

// Effect says what a backend must do with a record after a call.
type Effect uint8

const (
	// Write means that the record changed and must be stored.
	Write Effect = 1 << iota
	// Skewed means that the stored time was more than MaxSkew ahead of the clock and was set to it: worth logging.
	Skewed
)

// NewRecord returns the record of a bucket that is not there: empty, at clock.
func NewRecord(clock int64) Record { return Record{Time: clock} }

// Fill decides op on the record at clock and changes the record accordingly. The backend stores it if the Effect holds
// [Write]; after an error, which is [ErrNotHeld] or [errors.ErrUnsupported], the record is as it was.
//
//	now    = max(Time, clock)
//	leaked = max(0, Level - LeakRate * (now - Time))
//	fits n = n == 0  or  leaked + Held + n <= Capacity
//
// Time becomes now whenever something is written, except where the leak was too small to change the level: then it stays, so
// that small leaks add up instead of rounding to nothing. Within maxSkew a clock that stepped back neither leaks nor raises
// anything. A stored Time further ahead than that is set to clock, even by a call that is refused; the level stays, and so
// does what was left of a block.
func (r *Record) Fill(op *Op, clock int64, maxSkew time.Duration) (st State, effect Effect, err error) {
	if op.Mode > Always {
		return State{}, 0, errors.ErrUnsupported
	}
	if op.Amount == 0 && op.Hold == 0 {
		st = r.State(op.Limit, clock, maxSkew)
		st.Accepted = true
		return st, 0, nil
	}
	if r.Held+op.Hold < 0 {
		return State{}, 0, ErrNotHeld
	}
	effect = r.unskew(clock, maxSkew)
	now := max(r.Time, clock)
	before, last := r.LevelAt(op.LeakRate, now), now
	if before == r.Level && before > 0 && op.LeakRate > 0 {
		last = r.Time // the leak was lost in rounding: it goes on from where it began
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
	case accepted, op.Mode == Clamp: // a block does not keep out what Fillup says has happened
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

	st = State{
		Level: level, Held: r.Held, Capacity: op.Capacity, LeakRate: op.LeakRate,
		Spilled: spilled, At: toTime(now), Accepted: accepted,
	}
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
	return st, effect, nil
}

// State reports the record at clock by limit, or by the one last written if limit is zero. It changes nothing.
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

// Refusal is the state of an operation that did not fit into the record, which is as it was left: a backend that decides
// elsewhere than in [Record.Fill] asks it for the wait.
func (r Record) Refusal(op *Op, clock int64, maxSkew time.Duration) State {
	r.unskew(clock, maxSkew)
	st := r.State(op.Limit, clock, maxSkew)
	st.RetryAfter = r.wait(op, op.Amount+op.Hold, clock, op.rim(max(r.Time, clock)))
	return st
}

// Expired reports whether the record may be pruned at clock: nothing is held or blocked, and it was empty already maxSkew
// ago by the limit last written. A clock that then steps back by less than maxSkew finds the same answers without the record
// as with it. A bucket that does not leak never expires.
func (r Record) Expired(clock int64, maxSkew time.Duration) bool {
	past := clock - maxSkew.Microseconds()
	if r.LeakRate == 0 || r.Held > 0 || r.BlockedUntil > past || r.Time > past {
		return false
	}
	return r.LevelAt(r.LeakRate, past) == 0
}

// LevelAt reports the units that are left of r.Level at the time now, in
// microseconds on the store's clock, if the bucket leaks rate units per second.
// The level never falls below zero. A now before r.Time leaks nothing.
//
// All Go code of this module computes a leak by this method. A backend that
// computes it elsewhere must carry out the same operations in the same order:
//
//	max(0, Level - rate * ((now - Time) / 1e6))
func (r *Record) LevelAt(rate float64, now int64) float64 {
	if now <= r.Time {
		return r.Level // a busy key is often asked twice in a microsecond: skip the division
	}
	return max(0, r.Level-leaked(rate, now-r.Time))
}

// leaked returns the units that leak in us microseconds. The conversion keeps
// the compiler from fusing the product with the caller's subtraction: a fused
// multiply-add rounds once where SQL rounds twice.
func leaked(rate float64, us int64) float64 { return float64(rate * (float64(us) / 1e6)) }

// unskew sets a time that is not believed to clock. What was left of a block at the stored time is still left.
func (r *Record) unskew(clock int64, maxSkew time.Duration) Effect {
	if r.Time-clock <= maxSkew.Microseconds() {
		return 0
	}
	if r.BlockedUntil > r.Time {
		r.BlockedUntil = clock + (r.BlockedUntil - r.Time)
	}
	r.Time = clock
	return Write | Skewed
}

// block sets or extends the block for an operation that did not fit, and says whether that changed anything.
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
	if r.Limit == (Limit{}) { // the bucket is there for its block alone
		r.Limit = op.Limit
	}
	return Write
}

// rim is what the bucket may hold after op: the capacity, or a ceiling below it.
func (o *Op) rim(now int64) float64 {
	if o.Ceiling == 0 {
		return o.Capacity
	}
	ceiling := o.Ceiling
	if !o.CeilingAt.IsZero() {
		// A clock that jumped forward and was set right can be behind CeilingAt: a ceiling does not rise.
		ceiling -= leaked(o.LeakRate, max(0, now-o.CeilingAt.UnixMicro()))
	}
	return min(o.Capacity, ceiling)
}

// wait is how long after clock n units would fit into the record as it now stands.
func (r *Record) wait(op *Op, n float64, clock int64, rim float64) time.Duration {
	us := r.roomAfter(op.LeakRate, n, rim, max(r.Time, clock)-r.Time)
	switch {
	case us < 0, us > 0 && !op.CeilingAt.IsZero(): // a sinking ceiling sinks as fast as the level
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

// roomAfter returns the microseconds after r.Time at which n units first fit under rim: 0 if they do at elapsed, which is
// now; -1 if they never will. The estimate by division can be off by rounding, so it is checked against the rule itself.
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
	// Bracket the first fit between lo, which does not fit, and hi, which does.
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
