package storetest

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/brimgo/brim/store"
)

// transaction is one transaction on its way through a [Model].
type transaction struct {
	Model
	txn    store.Txn
	clock  int64
	got    *store.Result // nil if nobody knows it
	lone   bool
	before map[string]Bucket
	now    map[string]Bucket
	each   []decided
}

// decided is the decision about an operation, with its bucket afterwards.
type decided struct {
	decision
	after Bucket
}

// apply carries out a transaction. A lone fill counts as a transaction of one operation, but its
// state tells more of a refused operation than a transaction does.
func (m Model) apply(txn store.Txn, clock int64, got *store.Result, lone bool) (want store.Result, err error) {
	t := transaction{
		Model: m, txn: txn, clock: clock, got: got, lone: lone,
		before: make(map[string]Bucket, len(txn)), now: make(map[string]Bucket, len(txn)), each: make([]decided, len(txn)),
	}
	for _, op := range txn {
		t.before[op.Key] = m.bucket(op.Key, clock)
	}
	if times := t.outside(); times != nil {
		other, ok := (*store.PeriodError)(nil), got == nil
		if !ok && errors.As(got.Err, &other) {
			ok = slices.EqualFunc(other.Times, times, time.Time.Equal)
		}
		if want.Err = (&store.PeriodError{Times: times}); !ok {
			return want, mismatch{txn, clock, got.Err, times}
		}
		return want, nil
	}
	switch notHeld := t.try(); {
	case notHeld && got != nil && !errors.Is(got.Err, store.ErrNotHeld):
		return want, mismatch{txn, clock, got.Err, store.ErrNotHeld}
	case notHeld:
		return store.Result{Err: store.ErrNotHeld}, nil
	}
	want.Accepted = !slices.ContainsFunc(t.each, func(d decided) bool { return d.refused })
	if got != nil && (got.Err != nil || len(got.States) != len(txn) || got.Accepted != want.Accepted && !lone) {
		want.States = got.States
		return want, mismatch{txn, clock, *got, want}
	}
	switch {
	case lone:
		want.Accepted = t.each[0].accepted // its own step contains the changes
	case !want.Accepted:
		t.refuse()
	case slices.ContainsFunc(txn, asks):
		t.accept()
	}
	for i, op := range txn {
		d := t.each[i]
		var one *store.State
		if got != nil {
			one = &got.States[i]
		}
		of := d.decision
		if !want.Accepted && !lone {
			of = decision{} // the states show the buckets as the refusal leaves them
		}
		st := m.state(op, d.after, of, clock, one)
		if err = differs(op, clock, one, st); err == nil && got != nil {
			err = t.waits(i)
		}
		if err != nil {
			return want, err
		}
		want.States = append(want.States, st)
	}
	for k, b := range t.now {
		if b.there {
			m.Buckets[k] = b
		}
	}
	return want, nil
}

// outside returns the times of the buckets if an operation is under a quota of the calendar and not
// in its period.
func (t *transaction) outside() (times []time.Time) {
	outside := false
	for _, op := range t.txn {
		b, _ := t.before[op.Key].believed(t.clock)
		now := max(b.time, t.clock)
		times = append(times, time.UnixMicro(now))
		outside = outside || op.LeakRate < 0 && (now < op.Begins || float64(now) >= -op.LeakRate)
	}
	if !outside {
		return nil
	}
	return times
}

func asks(op store.Op) bool { return op.Mode == store.Ask }

// tried returns the operations of a transaction as they must fit: those that ask as well, and of
// those of mode UpTo the least.
func tried(txn store.Txn) store.Txn {
	try := slices.Clone(txn)
	for i := range try {
		switch try[i].Mode {
		case store.Ask:
			try[i].Mode = store.IfFits
		case store.UpTo:
			try[i].Mode, try[i].Amount, try[i].Least = store.IfFits, try[i].Least, 0
		}
	}
	return try
}

// try decides about the operations one after the other. It reports whether one ends a hold of more
// than is held.
func (t *transaction) try() (notHeld bool) {
	t.restore()
	for i, op := range tried(t.txn) {
		upTo := t.txn[i].Mode == store.UpTo
		if upTo {
			op = t.upTo(i)
		}
		b, d := t.now[op.Key].decide(op, t.clock, t.open(i, op))
		if upTo && d.accepted {
			d.taken = op.Amount
		}
		if d.notHeld {
			return true
		}
		if d.blocks(op) {
			var until time.Time
			if t.got != nil && len(t.got.States) == len(t.txn) {
				until = t.got.States[i].BlockedUntil
			}
			var wrote bool
			b, wrote = b.block(op, t.clock, until)
			d.wrote = d.wrote || wrote
		}
		t.set(i, b, d)
	}
	return false
}

// upTo returns the operation in mode IfFits that an operation of mode UpTo comes to. Where rounding
// decides about the amount, it follows the store's answer.
func (t *transaction) upTo(i int) store.Op {
	op := t.txn[i]
	b, taken, rounding := t.now[op.Key], 0.0, 0.0
	if t.got != nil && len(t.got.States) == len(t.txn) && t.Rounds {
		taken, rounding = t.got.States[i].Taken, t.tolerance(b, op)
	}
	return b.upTo(op, t.clock, taken, rounding)
}

// restore begins with the buckets before the transaction.
func (t *transaction) restore() {
	for k, b := range t.before {
		t.now[k] = b
	}
}

// set sets the bucket of an operation, and the decision.
func (t *transaction) set(i int, b Bucket, d decision) {
	b.there = b.there || d.wrote
	t.now[t.txn[i].Key], t.each[i] = b, decided{d, b}
}

// accept carries out the operations of an accepted transaction that do not ask.
func (t *transaction) accept() {
	t.restore()
	for i, op := range t.txn {
		if asks(op) {
			continue
		}
		taken := t.each[i].taken
		if op.Mode == store.UpTo { // no other operation has its key
			op.Mode, op.Amount = store.IfFits, taken
		}
		b, d := t.now[op.Key].decide(op, t.clock, func(num) (bool, bool) { return true, false })
		d.taken = taken
		t.set(i, b, d)
	}
	for i, op := range t.txn {
		if asks(op) {
			t.each[i] = decided{decision{accepted: true}, t.now[op.Key]}
		}
	}
}

// refuse leaves the buckets as a refused transaction does: unchanged, except for blocks, for times
// that are not believed, and for the time at an old rate.
func (t *transaction) refuse() {
	t.restore()
	sums := make(map[string]float64)
	never := false
	for _, op := range t.txn {
		if op.Mode == store.UpTo {
			op.Amount = op.Least
		}
		sums[op.Key] += op.Amount + op.Hold
		never = never || op.Limit != (store.Limit{}) && sums[op.Key] > max(op.Capacity, op.Ceiling)
	}
	for i, op := range t.txn {
		b := t.now[op.Key]
		if asks(op) {
			continue
		}
		becomes := func(next Bucket, wrote bool) {
			b = next
			b.there = b.there || wrote
		}
		if op.Amount != 0 || op.Hold != 0 {
			becomes(b.believed(t.clock))
		}
		kept := b.until > max(b.time, t.clock)
		if !kept && !never && op.Limit != (store.Limit{}) && (op.Amount != 0 || op.Hold != 0) {
			becomes(b.endOldRate(op.Limit, max(b.time, t.clock)))
		}
		if !kept && op.BlockFor != 0 && t.each[i].refused {
			var until time.Time
			if t.got != nil {
				until = t.got.States[i].BlockedUntil
			}
			if until.IsZero() {
				// The store may have rounded the level to zero. An empty bucket needs no block
				// until it is empty, so the block ends now.
				until = time.UnixMicro(max(b.time, t.clock))
			}
			becomes(b.block(op, t.clock, until))
		}
		t.now[op.Key] = b
	}
	for i, op := range t.txn {
		t.each[i].after = t.now[op.Key]
	}
}

// open returns a function that follows the store's answer where rounding permits either.
func (t *transaction) open(i int, op store.Op) func(num) (bool, bool) {
	b := t.now[op.Key]
	if !t.Rounds || t.got == nil {
		return exactly
	}
	tolerance := t.tolerance(b, op)
	return func(over num) (fits, sure bool) {
		switch {
		case math.Abs(over.units()) > tolerance || t.got.Err != nil && !errors.Is(t.got.Err, store.ErrNotHeld):
			return false, true
		case t.got.Err != nil || len(t.got.States) <= i:
			return false, false
		case op.Mode == store.Always:
			return true, false
		}
		st := t.got.States[i]
		if t.lone || t.got.Accepted {
			return st.Accepted || op.Mode == store.Clamp && !st.BlockedUntil.IsZero() && st.Spilled == 0, false
		}
		// In a refused transaction a refused operation has a wait. The states do not tell
		// whether a Fillup would have spilled.
		return st.RetryAfter == 0 && (op.Mode != store.Clamp || over.sign() <= 0), false
	}
}

// tolerance returns the units by which rounding can change a decision.
func (t *transaction) tolerance(b Bucket, op store.Op) float64 {
	return b.slack + t.Slack + 4*ulp(op.Capacity, op.Amount, op.Hold, b.level.units(), b.held.units())
}

// exactly never lets rounding decide.
func exactly(num) (fits, sure bool) { return false, true }

// waits checks the wait of an operation. After it the operations of the transaction on its bucket
// must fit together, and 2 microseconds earlier they must not. That of an operation that was not
// refused is 0.
func (t *transaction) waits(i int) error {
	op, d, wait := tried(t.txn)[i], t.each[i], t.got.States[i].RetryAfter
	ops := store.Txn{op}
	waits := !d.accepted
	if refused := !t.got.Accepted && !t.lone; refused {
		waits, ops = d.refused, nil
		for _, other := range tried(t.txn) {
			if other.Key == op.Key {
				ops = append(ops, other)
			}
		}
	}
	wrong := func(why string) error {
		return fmt.Errorf("%+v at %d: RetryAfter is %v; %s", ops, t.clock, wait, why)
	}
	switch {
	case !waits && wait != 0:
		return wrong("it was not refused")
	case !waits:
		return nil
	case wait <= 0:
		return wrong("it was refused")
	case slices.ContainsFunc(ops, func(op store.Op) bool { return !op.CeilingAt.IsZero() }):
		// The ceiling sinks as fast as the bucket leaks, so an amount that does not fit under
		// it never will.
		return nil
	}
	b, _ := d.after.believed(t.clock) // a question leaves a time that is not believed
	slack := 0.0
	if t.Rounds {
		n := float64(len(ops))
		slack = 2*(b.slack+t.Slack) + 8*ulp(op.Capacity, b.level.units(), b.held.units(), n*op.Amount, n*op.Hold)
	}
	switch us := wait.Microseconds(); {
	case wait >= store.Never:
		if b.wouldFit(ops, min(store.MaxTime, t.clock+store.Never.Microseconds())-1, -slack) {
			return wrong("it would fit in time")
		}
	case !b.wouldFit(ops, t.clock+us, slack):
		return wrong("it does not fit then")
	case us > 2 && b.wouldFit(ops, t.clock+us-2, -slack):
		return wrong("it fits earlier")
	}
	return nil
}

// wouldFit reports whether ops fit into b at clock, one after the other, give or take slack
// units. RetryAfter promises that they do.
func (b Bucket) wouldFit(ops []store.Op, clock int64, slack float64) bool {
	open := exactly
	if slack != 0 {
		open = func(over num) (fits, sure bool) { return over.units() <= slack, false }
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
