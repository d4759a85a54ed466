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
	Limit                // limit last written; time since Time leaks at its rate, or empties at -LeakRate
	BlockedUntil int64   // nothing fits before; 0 is no time and means that there is no block
}

// MaxTime is the latest time in microseconds since the Unix epoch, in the year 2255. A block that
// would end later ends there, which means never. A double holds every time up to it exactly.
const MaxTime = 1 << 53

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
// record if the Effect contains [Write]. The error is [ErrNotHeld], [ErrInvalidAmount] or
// [errors.ErrUnsupported], and leaves the record unchanged. It is a
// [*PeriodError] if op is under a quota of the calendar of which another period has begun.
//
//	now     = max(Time, clock)
//	before  = LevelAt(now), by the rate last written
//	fits(n) = n == 0  or  before + Held + n <= Capacity of op, and no block lasts beyond now
//
// A Ceiling of op takes the place of its Capacity.
//
// If the record is written, Time becomes now, unless the leak was too small to change the
// level. Then Time stays, so that small leaks add up instead of being lost in rounding.
//
// An op with another leak rate than the one last written ends the time at the old rate: the
// record gets the level at now, the time now and the limit of op. It does so also if op is refused
// in mode IfFits or UpTo, unless it exceeds the capacity and the ceiling and so is refused for
// ever. The next refusal at the same rate changes nothing.
//
// While a block lasts, a refused op changes nothing: it neither prolongs the block nor ends the
// time at the old rate. A caller who keeps trying is not kept out for longer.
//
// The rate in the State, and that of its RetryAfter, is the one at which the record leaks until the
// next write; see [State].
//
// An amount that is lost in the rounding of the level raises the level to the next double, so that
// it never goes in for nothing. It fits only if that level does.
//
// The end of a hold may differ from the held units by 2^-40 of the larger capacity, that of op or
// the one last written, and a rest below that share becomes 0: so holds of fractions leave exactly
// nothing, in whatever order they end. This is so as long as fewer than 8,192 holds and ends
// follow the last time when nothing was held. A hold below 2^-38 of that capacity is
// [ErrInvalidAmount].
//
// A zero Limit in mode [Always] stands for the limit last written. If there is none, a drain
// changes nothing, and an op that ends a hold or puts units in is ErrNotHeld.
//
// If the clock has stepped back by at most maxSkew, nothing leaks. If Time is further ahead of
// the clock, Fill sets Time to clock, even if op is refused. The level and the remaining
// duration of a block stay.
//
// In the other modes, an op with neither Amount nor Hold is accepted and changes nothing.
//
// Mode [UpTo] is mode IfFits with the largest amount that fits, or with Least if that does not fit.
//
// The modes [Ask], [Block] and [Unblock] put nothing in. Ask never changes the record. Block and
// Unblock change BlockedUntil, and a Time that is more than maxSkew ahead. Block may prolong a
// block and never shortens it. A bucket that it creates has a zero Limit until units go in.
func (r *Record) Fill(op *Op, clock int64, maxSkew time.Duration) (st State, effect Effect, err error) {
	effect, err = r.FillTo(&st, op, clock, maxSkew)
	return st, effect, err
}

// FillTo is [Record.Fill] with the state written to *st, which must be zero. Fill writes the
// fields of a State one by one and then returns a copy of it, and the processor waits with the
// copy until the writes are complete. For a backend in memory that wait takes a seventh of the
// time of a decision.
func (r *Record) FillTo(st *State, op *Op, clock int64, maxSkew time.Duration) (effect Effect, err error) {
	if op.LeakRate < 0 && !op.begun(r.timeAt(clock, maxSkew)) {
		return 0, &PeriodError{[]time.Time{toTime(r.timeAt(clock, maxSkew))}}
	}
	if op.Mode > Always {
		*st, effect, err = r.special(op, clock, maxSkew)
		return effect, err
	}
	if op.Amount == 0 && op.Hold == 0 {
		*st = r.State(op.Limit, clock, maxSkew)
		st.Accepted = true
		return 0, nil
	}
	if op.Limit == (Limit{}) {
		return r.fillAsWritten(st, op, clock, maxSkew)
	}
	held, err := r.heldAfter(op)
	if err != nil {
		return 0, err
	}
	effect = r.unskew(clock, maxSkew)
	now := max(r.Time, clock)
	n, rim := op.Amount+op.Hold, op.rim(now)
	before, last := r.LevelAt(now), now
	changes := r.LeakRate != op.LeakRate && r.Limit != (Limit{})
	if before == r.Level && before > 0 && op.LeakRate > 0 && !changes {
		last = r.Time // the leak was lost in rounding, so the next call counts it from here again
	}
	after := max(0, before+op.Amount)
	if op.Amount > 0 && after == before {
		after = math.Nextafter(before, math.Inf(1))
	}
	room, blocked := r.fits(op, n, before, rim), r.blocked(now)
	accepted := op.Mode == Always || (room && !blocked)

	var spilled float64
	level := before
	switch {
	case op.Mode == Clamp && !room:
		level = max(before, rim-r.Held)
		spilled = max(0, before+n-level)
	case accepted, op.Mode == Clamp: // a block does not keep out an event that has happened
		level = after
	}
	// A drain of an empty bucket changes nothing.
	idle := op.Amount < 0 && op.Hold == 0 && before == 0
	switch {
	case (accepted || op.Mode == Clamp) && !idle:
		r.Level, r.Held, r.Time, r.Limit = level, held, last, op.Limit
		effect |= Write
	case changes && !accepted && !blocked && n <= op.highest():
		effect |= r.setRate(op.Limit, now)
	}
	if !accepted && !blocked && op.BlockFor != 0 {
		effect |= r.block(op, now)
	}

	st.Level, st.Held, st.Capacity, st.LeakRate = level, r.Held, op.Capacity, op.LeakRate
	if changes || op.LeakRate < 0 {
		st.SetLimit(r.leaking(op.Limit, level, now))
	}
	st.Spilled, st.At, st.Accepted = spilled, toTime(now), accepted
	if op.Amount < 0 {
		st.Drained = before - level
	}
	if r.blocked(now) {
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

// fillAsWritten is FillTo for an op without a limit.
func (r *Record) fillAsWritten(st *State, op *Op, clock int64, maxSkew time.Duration) (Effect, error) {
	as := *op
	as.Limit, as.Begins = r.Limit, anyPeriod
	switch {
	case r.Limit != (Limit{}):
		return r.FillTo(st, &as, clock, maxSkew)
	case op.Hold < 0 || op.Amount > 0:
		return 0, ErrNotHeld
	}
	*st = r.State(Limit{}, clock, maxSkew)
	st.Accepted = true
	return 0, nil
}

// special is Fill for the modes behind Always.
func (r *Record) special(op *Op, clock int64, maxSkew time.Duration) (st State, effect Effect, err error) {
	switch op.Mode {
	case UpTo:
		return r.upTo(op, clock, maxSkew)
	case Ask:
		if op.Amount == 0 && op.Hold == 0 {
			break
		}
		if _, err = r.heldAfter(op); err != nil {
			return State{}, 0, err
		}
		st = r.Refusal(op, clock, maxSkew)
		st.Accepted = st.RetryAfter == 0
		return st, 0, nil
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

// State reports the state of the bucket at time clock by the capacity of limit, or by the limit
// last written if limit is zero. It changes nothing.
func (r Record) State(limit Limit, clock int64, maxSkew time.Duration) State {
	if limit == (Limit{}) {
		limit = r.Limit
	}
	r.unskew(clock, maxSkew)
	now := max(r.Time, clock)
	st := State{
		Level: r.LevelAt(now), Held: r.Held, At: toTime(now),
	}
	st.SetLimit(r.leaking(limit, st.Level, now))
	if r.blocked(now) {
		st.BlockedUntil = toTime(r.BlockedUntil)
	}
	return st
}

// leaking returns limit with the rate at which the bucket leaks from the level now until the next
// write: the one last written. A bucket that may have been pruned shows the rate of the call, as
// one that does not exist: an answer must not tell the two apart.
func (r *Record) leaking(limit Limit, level float64, now int64) Limit {
	if r.Limit != (Limit{}) && (level > 0 || r.Held > 0 || r.blocked(now)) {
		limit.LeakRate = r.LeakRate
	}
	return limit
}

// Refusal returns the state of an operation that was refused, with its RetryAfter. The record is
// the bucket as the refusal left it, or as it was before. A refusal that [Record.Fill] answers by
// the rate of op, because it ends the time at an old rate, is answered so. Refusal is for wrappers,
// and for backends that decide elsewhere than in Fill.
func (r Record) Refusal(op *Op, clock int64, maxSkew time.Duration) State {
	if op.Mode == UpTo {
		least := op.least()
		op = &least
	}
	r.unskew(clock, maxSkew)
	n, now := op.Amount+op.Hold, max(r.Time, clock)
	if op.Mode != Ask && !r.blocked(now) && n <= op.highest() {
		r.setRate(op.Limit, now)
	}
	st := r.State(op.Limit, clock, maxSkew)
	st.RetryAfter = r.wait(op, n, clock, op.rim(now))
	return st
}

// Expired reports whether the record may be pruned at time clock: nothing is held or blocked,
// and maxSkew ago the bucket was already empty by the limit last written. If the clock then
// steps back by less than maxSkew, all answers are the same with and without the record. A
// bucket that does not leak never expires, unless it never had a limit and was only blocked.
func (r Record) Expired(clock int64, maxSkew time.Duration) bool {
	past := clock - maxSkew.Microseconds()
	if r.LeakRate == 0 && r.Limit != (Limit{}) || r.Held > 0 || r.blocked(past) || r.Time > past {
		return false
	}
	return r.LevelAt(past) == 0
}

// LevelAt reports the units that are left of Level at the time now, in microseconds on the
// store's clock. It never reports less than zero. If now is before Time, nothing has leaked.
//
// All levels are computed here. Code that computes a level elsewhere, for instance in SQL, must
// carry out the same operations in the same order:
//
//	max(0, Level - LeakRate * ((now - Time) / 1e6))
//
// A LeakRate below 0 is the end of a period: Level is left before the time -LeakRate, and 0 from
// then on.
func (r *Record) LevelAt(now int64) float64 {
	if now <= r.Time {
		return r.Level // a busy key is often filled twice in a microsecond: skip the division
	}
	return levelAfter(r.Level, r.LeakRate, r.Time, now-r.Time)
}

// levelAfter returns the rest of a level us microseconds after the time at.
func levelAfter(level, rate float64, at, us int64) float64 {
	if rate < 0 {
		if at+us >= int64(-rate) {
			return 0
		}
		return level
	}
	return max(0, level-leaked(rate, us))
}

// setRate ends the time at the rate last written if l has another: from now on l holds. A zero
// limit stands for the limit last written.
func (r *Record) setRate(l Limit, now int64) Effect {
	if r.LeakRate == l.LeakRate || r.Limit == (Limit{}) || l == (Limit{}) {
		return 0
	}
	r.Level, r.Time, r.Limit = r.LevelAt(now), now, l
	return Write
}

// heldAfter returns the held units after op.
func (r *Record) heldAfter(op *Op) (float64, error) {
	if op.Hold == 0 {
		return r.Held, nil
	}
	capacity := max(op.Capacity, r.Capacity)
	if op.Hold > 0 {
		if err := validateHold(op.Hold, capacity); err != nil {
			return 0, err
		}
		return r.Held + op.Hold, nil
	}
	held, rounding := r.Held+op.Hold, capacity*0x1p-40
	switch {
	case held < -rounding:
		return 0, ErrNotHeld
	case held < rounding:
		return 0, nil
	}
	return held, nil
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
	// A block that was over stays over, although its end may be ahead of the clock, and a block
	// for ever stays for ever.
	if r.blocked(clock) && r.BlockedUntil < MaxTime {
		r.BlockedUntil = end(clock + max(0, r.BlockedUntil-r.Time))
	}
	r.Time = clock
	return Write | Skewed
}

// blocked reports whether a block lasts beyond now.
func (r *Record) blocked(now int64) bool { return r.BlockedUntil > now && r.BlockedUntil != 0 }

// block sets or prolongs the block of op, and returns Write if that changed the record.
func (r *Record) block(op *Op, now int64) Effect {
	d := op.BlockFor
	if d == UntilEmpty {
		st := State{Level: r.LevelAt(now), At: toTime(now)}
		st.SetLimit(r.Limit)
		d = st.TimeToEmpty()
	}
	until := min(now+d.Microseconds(), MaxTime)
	if d >= Never {
		until = MaxTime
	}
	if until <= now || r.BlockedUntil != 0 && until <= r.BlockedUntil {
		return 0
	}
	r.BlockedUntil = end(until)
	if r.Limit == (Limit{}) { // the bucket did not exist before its block
		r.Limit = op.Limit
	}
	return Write
}

// end returns the end of a block as a Record stores it: 0 means that there is no block, so a block
// that ends in the very microsecond 0, at the beginning of 1970, ends in the next.
func end(until int64) int64 {
	if until == 0 {
		return 1
	}
	return until
}

// rim returns the units that the bucket may contain after op: the ceiling, or the capacity if op
// has none.
func (o *Op) rim(now int64) float64 {
	if o.Ceiling == 0 {
		return o.Capacity
	}
	return o.ceiling(now)
}

// ceiling is rim for an operation with a ceiling. It is apart from rim, because the compiler
// inlines rim only while it is this short.
func (o *Op) ceiling(now int64) float64 {
	if o.CeilingAt.IsZero() || o.LeakRate <= 0 {
		return o.Ceiling
	}
	// The clock can be behind CeilingAt after it jumped forward and was set right. A ceiling does
	// not rise.
	return o.Ceiling - leaked(o.LeakRate, max(0, now-o.CeilingAt.UnixMicro()))
}

// highest returns the units that the bucket may contain after op or after a later one by its limit.
// An op that puts in more is refused for ever.
func (o *Op) highest() float64 { return max(o.Capacity, o.Ceiling) }

// wait returns the time after clock until op, which puts n units in, fits into the bucket as the
// record describes it. Until then the bucket leaks at the rate last written, or does not exist yet.
func (r *Record) wait(op *Op, n float64, clock int64, rim float64) time.Duration {
	now := max(r.Time, clock)
	us := r.roomAfter(op, n, rim, now-r.Time)
	switch {
	case us < 0, us > 0 && !op.CeilingAt.IsZero(): // the ceiling sinks as fast as the level
		return Never
	case us > 0:
		us += r.Time - clock
	}
	if r.blocked(now) {
		us = max(us, r.BlockedUntil-clock)
	}
	if us > 0 && (us >= MaxTime-clock || us >= maxWait) {
		return Never
	}
	return time.Duration(us) * time.Microsecond
}

// fits reports whether op, which puts n units in, fits under rim on a level of before.
func (r *Record) fits(op *Op, n, before, rim float64) bool {
	return before+r.Held+n <= rim &&
		(op.Amount <= 0 || before+op.Amount != before || math.Nextafter(before, math.Inf(1))+(r.Held+op.Hold) <= rim)
}

// roomAfter returns the number of microseconds after r.Time after which n units first fit under
// rim. It returns 0 if they fit now, which is elapsed microseconds after r.Time, and -1 if they
// never fit. A division estimates the time. Because of rounding the estimate can be wrong, so
// roomAfter checks it against the rule.
func (r *Record) roomAfter(op *Op, n, rim float64, elapsed int64) int64 {
	rate := r.LeakRate
	fits := func(us int64) bool { return r.fits(op, n, r.LevelAt(r.Time+us), rim) }
	if fits(elapsed) {
		return 0
	}
	if rate < 0 && r.Held+n <= rim {
		return max(elapsed+1, int64(-rate)-r.Time) // units can go in after the period, by the limit last written
	}
	guess := math.Ceil((r.Level + r.Held + n - rim) / rate * 1e6)
	if r.Held+n > rim || rate <= 0 || !(guess < 2*MaxTime) {
		return -1
	}
	// Bracket the first fit between lo, when n does not fit, and hi, when n fits.
	lo, hi := elapsed, max(elapsed+1, int64(guess))
	for step := int64(1); !fits(hi); step *= 2 {
		if hi > 2*MaxTime {
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
