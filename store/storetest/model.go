package storetest

import (
	"fmt"
	"maps"
	"math"
	"time"

	"github.com/brimgo/brim/internal/differ"
	"github.com/brimgo/brim/store"
)

// Model is the content of a store with a MaxSkew of [store.DefaultMaxSkew], in exact arithmetic. It
// shares no code with package store, so that it finds the faults there, too. [Run] compares a store
// with it on random operations. A harness that has calls of its own, with faults or with many
// callers, can do the same: it carries out each call on the model and gives it the store's answer.
//
// A method compares every field of the answer, apart from Estimate. RetryAfter may be a microsecond
// late. If the answer is wrong, the method returns an error that
// tells the fields, and the model stays as it was. Without an answer, the method returns that of a
// store, except for RetryAfter: a caller who lost the answer goes on with the model before the call
// and the one after it. A Model is for one goroutine.
//
// A new rule of a bucket is added here once, and all harnesses judge it: a field of an operation in
// decide, a field of the state in state, a field of the record in Bucket.
type Model struct {
	// Buckets has the buckets that exist. To delete one, delete its key. A copy of the map is a
	// snapshot of the store.
	Buckets map[string]Bucket
	// Rounds permits the store to round: by 2 units in the last place of the capacity for each
	// write. If that permits either decision, the model follows the store's answer. Without Rounds,
	// every number must be equal, and the inputs must need no rounding.
	Rounds bool
	// Slack is a number of units by which the buckets of a store that Rounds may differ besides,
	// where the times of calls are not exactly known.
	Slack float64
}

// Bucket is one bucket of a [Model]. Buckets can be compared and copied. The zero Bucket does not
// exist.
type Bucket struct {
	level, held num
	time, until int64 // microseconds: time of the last write; end of the block
	limit       store.Limit
	perhaps     store.Limit // takes the place of limit if rounding has emptied the bucket, or has not; zero if it cannot
	there       bool
	slack       float64 // units by which the store may differ, besides Model.Slack
}

// decision is the model's answer to one operation.
type decision struct {
	accepted, full   bool
	refused          bool // not accepted, in mode IfFits
	kept             bool // a block lasted: a call that is not accepted neither sets another nor ends an old rate
	notHeld          bool
	spilled, drained num
	taken            float64
	wrote            bool
}

// bucket returns the bucket of key. If it does not exist, it is empty, at the clock's time.
func (m Model) bucket(key string, clock int64) Bucket {
	b := m.Buckets[key]
	if !b.there {
		b.time = clock
	}
	return b
}

// believed returns the bucket with its time set to the clock if it is more than MaxSkew ahead,
// and reports whether it was.
func (b Bucket) believed(clock int64) (Bucket, bool) {
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
func (b Bucket) leaked(now int64) num {
	if now == b.time {
		return b.level
	}
	if ends := -b.limit.LeakRate; ends > 0 { // a quota of the calendar: all leaves at once
		if float64(now) >= ends {
			return num{}
		}
		return b.level
	}
	return larger(num{}, b.level.sub(perMicro(b.limit.LeakRate).times(now-b.time)))
}

// endOldRate returns the bucket at the time now under a limit with another rate than the one last
// written, and reports whether the rate is another.
func (b Bucket) endOldRate(limit store.Limit, now int64) (Bucket, bool) {
	if b.limit == (store.Limit{}) || b.limit.LeakRate == limit.LeakRate {
		return b, false
	}
	b.level, b.time, b.limit = b.leaked(now), now, limit
	b.slack += 2 * ulp(limit.Capacity, b.slack, b.level.units())
	return b, true
}

// heldAfter returns the held units after a change by hold units.
func (b Bucket) heldAfter(hold num, capacity float64) (held num, ok bool) {
	held = b.held.add(hold)
	rounding := quanta(max(capacity, b.limit.Capacity) * 0x1p-40)
	if hold.sign() >= 0 || held.sub(rounding).sign() >= 0 {
		return held, true
	}
	return num{}, held.add(rounding).sign() >= 0
}

// rim returns the units that the bucket may contain after op.
func rim(op store.Op, now int64) num {
	if op.Ceiling == 0 {
		return quanta(op.Capacity)
	}
	ceiling := quanta(op.Ceiling)
	if !op.CeilingAt.IsZero() {
		ceiling = ceiling.sub(perMicro(max(0, op.LeakRate)).times(max(0, now-op.CeilingAt.UnixMicro())))
	}
	return ceiling
}

// upTo returns the operation in mode IfFits that an operation of mode UpTo comes to at clock. Its
// amount is the largest whole number of units that fits, or the least. Taken is the store's amount,
// or 0. It holds where it is a unit off and within rounding.
func (b Bucket) upTo(op store.Op, clock int64, taken, rounding float64) store.Op {
	seen, _ := b.believed(clock)
	now := max(seen.time, clock)
	// All numbers below are whole, so the search compares exact numbers alone.
	lo, hi := op.Least, op.Amount+1
	over := func(n float64) num {
		return seen.leaked(now).add(b.held).add(quanta(n)).sub(rim(op, now))
	}
	for hi-lo > 1 {
		if mid := lo + math.Floor((hi-lo)/2); over(mid).sign() <= 0 {
			lo = mid
		} else {
			hi = mid
		}
	}
	switch {
	case taken == lo+1 && taken <= op.Amount && over(taken).units() <= rounding,
		taken == lo-1 && taken >= op.Least && over(lo).units() >= -rounding:
		lo = taken
	}
	op.Mode, op.Amount, op.Least = store.IfFits, lo, 0
	return op
}

// decide decides op on b at clock, and returns the bucket afterwards. Open decides if rounding
// permits either answer.
func (b Bucket) decide(op store.Op, clock int64, open func(over num) (fits, sure bool)) (Bucket, decision) {
	if op.Mode == store.Block || op.Mode == store.Unblock {
		b, wrote := b.believed(clock)
		if op.Mode == store.Unblock && b.until != 0 {
			b.until, wrote = 0, true
		}
		return b, decision{accepted: true, wrote: wrote}
	}
	if op.Limit == (store.Limit{}) { // the limit last written
		if op.Limit = b.limit; b.limit == (store.Limit{}) {
			notHeld := op.Amount > 0 || op.Hold < 0
			return b, decision{accepted: !notHeld, notHeld: notHeld}
		}
	}
	if op.Amount == 0 && op.Hold == 0 {
		return b, decision{accepted: true}
	}
	amount, hold := quanta(op.Amount), quanta(op.Hold)
	held, ok := b.heldAfter(hold, op.Capacity)
	if !ok {
		return b, decision{notHeld: true}
	}
	b, skewed := b.believed(clock)
	now := max(b.time, clock)
	leaked := b.leaked(now)
	d := decision{wrote: skewed}

	over := leaked.add(b.held).add(amount).add(hold).sub(rim(op, now))
	fits, sure := open(over)
	if sure {
		fits = over.sign() <= 0
	}
	d.kept = b.until > now
	d.accepted = fits && !d.kept || op.Mode == store.Always

	after := leaked
	switch {
	case op.Mode == store.Clamp && !fits:
		after = larger(leaked, rim(op, now).sub(b.held))
		d.spilled = leaked.add(amount).sub(after)
	case d.accepted || op.Mode == store.Clamp:
		after = larger(num{}, leaked.add(amount))
	}
	nothing := op.Amount < 0 && op.Hold == 0 && leaked == num{}
	if op.Amount < 0 && op.Hold == 0 && leaked.units() <= b.slack && op.Limit != b.limit {
		if b.perhaps = b.limit; nothing {
			b.perhaps = op.Limit
		}
	} else if !nothing {
		b.perhaps = store.Limit{}
	}
	if (d.accepted || op.Mode == store.Clamp) && !nothing {
		b.level, b.time, b.limit = after, now, op.Limit
		b.held = held
		b.slack += 2 * ulp(op.Capacity, op.Amount, op.Hold, b.slack, after.units(), b.held.units())
		d.wrote = true
	}
	if op.Amount < 0 {
		d.drained = leaked.sub(after)
	}
	if d.refused = op.Mode == store.IfFits && !d.accepted; d.refused && !d.kept && op.Amount+op.Hold <= max(op.Capacity, op.Ceiling) {
		var wrote bool
		b, wrote = b.endOldRate(op.Limit, now)
		d.wrote = d.wrote || wrote
	}
	puts := op.Hold > 0 || op.Hold == 0 && op.Amount > 0
	atRim := after.add(b.held).sub(quanta(op.Capacity)).sign() >= 0
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
func (b Bucket) block(op store.Op, clock int64, until time.Time) (Bucket, bool) {
	now := max(b.time, clock)
	end := now + op.BlockFor.Microseconds()
	if op.BlockFor == store.UntilEmpty {
		if end = b.empties(now); end > now && end < store.MaxTime {
			if off := until.UnixMicro() - end; off >= -1-b.slackMicros() && off <= 1+b.slackMicros() {
				end = until.UnixMicro()
			}
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

// empties returns the first time from now on at which nothing is left of the level. A wait that
// ends with the period of a quota tries the operations at that moment, and they block nothing until
// a period is over that is over already.
func (b Bucket) empties(now int64) int64 {
	if ends := -b.limit.LeakRate; ends > 0 && float64(now) >= ends {
		return now
	}
	lo, hi := now-1, int64(store.MaxTime)
	for hi-lo > 1 {
		if mid := lo + (hi-lo)/2; (b.leaked(mid) == num{}) {
			hi = mid
		} else {
			lo = mid
		}
	}
	return hi
}

// slackMicros returns the microseconds in which the slack leaks.
func (b Bucket) slackMicros() int64 {
	if b.limit.LeakRate <= 0 {
		return 0
	}
	return int64(math.Ceil(b.slack / b.limit.LeakRate * 1e6))
}

// expired reports whether the bucket may be pruned.
func (b Bucket) expired(clock int64) bool {
	past := clock - maxSkew.Microseconds()
	leaks := b.limit.LeakRate != 0 || b.limit == (store.Limit{})
	return b.there && b.held == num{} && b.until <= past && b.time <= past && leaks && b.leaked(past) == num{}
}

// Prune removes the buckets that a store must remove when its clock shows that time.
func (m Model) Prune(clock time.Time) {
	maps.DeleteFunc(m.Buckets, func(_ string, b Bucket) bool { return b.expired(clock.UnixMicro()) })
}

// Fill carries out op at a reading of the store's clock, as the store's Fill does. got is nil, or
// the answer: its only state and its error, and Accepted as in the state.
func (m Model) Fill(op store.Op, clock time.Time, got *store.Result) (want store.Result, err error) {
	return m.apply(store.Txn{op}, clock.UnixMicro(), got, op.Mode != store.Ask)
}

// Apply carries out a transaction at a reading of the store's clock, as the store's Apply does. got
// is nil, or the answer. The transactions of one Apply are decided one after the other.
func (m Model) Apply(txn store.Txn, clock time.Time, got *store.Result) (want store.Result, err error) {
	return m.apply(txn, clock.UnixMicro(), got, false)
}

// Read returns the state of a bucket at a reading of the store's clock, by its limit or by the
// limit last written. got is nil, or the answer.
func (m Model) Read(b store.Bucket, clock time.Time, got *store.State) (want store.State, err error) {
	at := clock.UnixMicro()
	want = m.state(store.Op{Bucket: b}, m.bucket(b.Key, at), decision{}, at, got)
	return want, differs(b, at, got, want)
}

// state returns the state of a bucket after an operation, with the numbers of the answer where they
// are near enough.
func (m Model) state(op store.Op, b Bucket, d decision, clock int64, got *store.State) store.State {
	if op.Limit == (store.Limit{}) {
		op.Limit = b.limit
	}
	seen, _ := b.believed(clock)
	now := max(seen.time, clock)
	level := seen.leaked(now)
	st := store.State{
		Level: level.units(), Held: b.held.units(), Spilled: d.spilled.units(), Taken: d.taken, Drained: d.drained.units(),
		Capacity: op.Capacity, At: time.UnixMicro(now), Accepted: d.accepted, Full: d.full,
	}
	if seen.until > now {
		st.BlockedUntil = time.UnixMicro(seen.until)
	}
	// A bucket leaks at the rate last written. Where nothing is in it and no block keeps it from
	// being pruned, it shows the rate of the call.
	setRate := func() {
		rate := op.LeakRate
		if b.limit != (store.Limit{}) && (st.Level > 0 || st.Held > 0 || seen.until > now) {
			rate = b.limit.LeakRate
		}
		if st.LeakRate = rate; rate < 0 {
			st.LeakRate, st.Empties = 0, time.UnixMicro(int64(-rate))
		}
	}
	if got == nil {
		setRate()
		return st
	}
	for _, n := range []struct {
		got   float64
		exact num
		want  *float64
	}{
		{got.Level, level, &st.Level},
		{got.Held, b.held, &st.Held},
		{got.Spilled, d.spilled, &st.Spilled},
		{got.Drained, d.drained, &st.Drained},
	} {
		if m.near(n.got, n.exact, b, op) {
			*n.want = n.got
		}
	}
	setRate()
	if m.Rounds && m.near(op.Capacity, level.add(b.held), b, op) { // rounding decides if it is full
		st.Full = got.Full
	}
	st.RetryAfter, st.Estimate = got.RetryAfter, got.Estimate
	return st
}

// near reports whether got equals want, or differs by no more than rounding permits.
func (m Model) near(got float64, want num, b Bucket, op store.Op) bool {
	switch {
	case math.IsNaN(got) || math.Abs(got) > 1<<60:
		return false
	case !m.Rounds:
		return quanta(got) == want
	}
	rounding := 4 * ulp(op.Capacity, op.Amount, op.Hold, b.level.units(), b.held.units())
	return math.Abs(quanta(got).sub(want).units()) <= b.slack+m.Slack+rounding
}

// mismatch is a wrong answer. Its text is made when somebody reads it: a checker of histories meets
// many that nobody reads.
type mismatch struct {
	call      any
	clock     int64
	got, want any
}

func (w mismatch) Error() string {
	return fmt.Sprintf("%+v at %d:\n%s", w.call, w.clock, differ.Fields(w.got, w.want))
}

// differs returns an error if there is an answer and it is not as wanted.
func differs(call any, clock int64, got *store.State, want store.State) error {
	if got == nil {
		return nil
	}
	same := want
	if got.At.Equal(want.At) {
		same.At = got.At
	}
	if got.Empties.Equal(want.Empties) {
		same.Empties = got.Empties
	}
	if got.BlockedUntil.Equal(want.BlockedUntil) {
		same.BlockedUntil = got.BlockedUntil
	}
	if same == *got {
		return nil
	}
	return mismatch{call, clock, *got, want}
}

// ulp returns the unit in the last place of the sum of the magnitudes.
func ulp(f ...float64) float64 {
	sum := 0.0
	for _, x := range f {
		sum += math.Abs(x)
	}
	return math.Nextafter(sum, math.Inf(1)) - sum
}
