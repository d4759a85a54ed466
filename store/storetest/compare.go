package storetest

import (
	"errors"
	"maps"
	"math"
	"math/big"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/brimgo/brim/internal/differ"
	"github.com/brimgo/brim/store"
)

// applyBoth applies txn to the model and compares the store's result. A lone Fill counts as a
// transaction of one operation, but its state reports more of a refused operation than a
// transaction does.
func (d *driver) applyBoth(t *rapid.T, txn store.Txn, got store.Result, lone bool) {
	before := make(map[string]modelBucket)
	for _, op := range txn {
		before[op.Key] = d.m.bucket(op.Key)
	}
	now := maps.Clone(before)
	decisions := make([]decision, len(txn))
	steps := make([]modelBucket, len(txn)) // each bucket after its operation
	refused := false
	for i, op := range tried(txn) {
		b, dec := now[op.Key].decide(op, d.m.clock, d.open(op, now[op.Key], got, i, lone))
		if dec.notHeld {
			if !errors.Is(got.Err, store.ErrNotHeld) {
				t.Fatalf("%+v: %+v, want ErrNotHeld", op, got)
			}
			return
		}
		if dec.blocks(op) {
			var until time.Time
			if len(got.States) == len(txn) {
				until = got.States[i].BlockedUntil
			}
			var wrote bool
			b, wrote = b.block(op, d.m.clock, until)
			dec.wrote = dec.wrote || wrote
		}
		b.there = b.there || dec.wrote
		now[op.Key], steps[i], decisions[i] = b, b, dec
		refused = refused || dec.refused
	}
	if got.Err != nil || len(got.States) != len(txn) {
		t.Fatalf("%+v: %+v, want %d states and no error", txn, got, len(txn))
	}
	if lone {
		refused = false // its own step contains the changes
	} else if got.Accepted == refused {
		t.Fatalf("%+v: accepted = %v, want %v: %+v at %d", txn, got.Accepted, !refused, before, d.m.clock)
	}
	if refused {
		d.refuse(t, txn, got, before, decisions)
		return
	}
	if slices.ContainsFunc(txn, asks) && !lone {
		now = maps.Clone(before)
		for i, op := range txn {
			if asks(op) {
				continue
			}
			b, dec := now[op.Key].decide(op, d.m.clock, func(*big.Int) (bool, bool) { return true, false })
			b.there = b.there || dec.wrote
			now[op.Key], steps[i], decisions[i] = b, b, dec
		}
		for i, op := range txn {
			if asks(op) {
				steps[i], decisions[i] = now[op.Key], decision{accepted: true, spilled: zero}
			}
		}
	}
	for i, op := range txn {
		d.compare(t, op, got.States[i], steps[i], decisions[i])
		d.checkRetry(t, op, txn[i:i+1], got.States[i], steps[i], decisions[i])
	}
	for k, b := range now {
		if b.there {
			d.m.buckets[k] = b
		}
	}
}

func asks(op store.Op) bool { return op.Mode == store.Ask }

// tried returns the operations of a transaction as the decision takes them: those that ask must fit
// as well.
func tried(txn store.Txn) store.Txn {
	try := slices.Clone(txn)
	for i := range try {
		if asks(try[i]) {
			try[i].Mode = store.IfFits
		}
	}
	return try
}

// refuse compares a refused transaction. It must leave the buckets unchanged, except for blocks,
// for times that are not believed, and for the time at an old rate.
func (d *driver) refuse(t *rapid.T, txn store.Txn, got store.Result, before map[string]modelBucket, decisions []decision) {
	left := make(map[string]modelBucket)
	sums := make(map[string]float64)
	never := false
	for _, op := range txn {
		left[op.Key] = before[op.Key]
		sums[op.Key] += op.Amount + op.Hold
		never = never || op.Limit != (store.Limit{}) && sums[op.Key] > op.Capacity
	}
	for i, op := range txn {
		b := left[op.Key]
		if asks(op) {
			continue
		}
		becomes := func(next modelBucket, wrote bool) {
			b = next
			b.there = b.there || wrote
		}
		if op.Amount != 0 || op.Hold != 0 {
			becomes(b.believed(d.m.clock))
		}
		kept := b.until > max(b.time, d.m.clock)
		if !kept && !never && op.Limit != (store.Limit{}) && (op.Amount != 0 || op.Hold != 0) {
			becomes(b.endOldRate(op.Limit, max(b.time, d.m.clock)))
		}
		if !kept && op.BlockFor != 0 && decisions[i].refused {
			until := got.States[i].BlockedUntil
			if until.IsZero() {
				// The store may have rounded the level to zero. An empty bucket needs no block
				// until it is empty, so the block ends now.
				until = time.UnixMicro(max(b.time, d.m.clock))
			}
			becomes(b.block(op, d.m.clock, until))
		}
		left[op.Key] = b
	}
	for i, op := range txn {
		b := left[op.Key]
		d.compare(t, op, got.States[i], b, decision{spilled: zero})
		if !decisions[i].refused {
			if got.States[i].RetryAfter != 0 {
				t.Fatalf("operation %d of %+v was not refused, but has RetryAfter %v",
					i, txn, got.States[i].RetryAfter)
			}
			continue
		}
		var ops []store.Op // all on the same bucket: RetryAfter is the wait until they fit together
		for _, other := range tried(txn) {
			if other.Key == op.Key {
				ops = append(ops, other)
			}
		}
		d.checkRetry(t, op, ops, got.States[i], b, decisions[i])
	}
	for k, b := range left {
		if b.there {
			d.m.buckets[k] = b
		}
	}
}

// open returns a function that follows the store's answer where rounding permits either.
func (d *driver) open(op store.Op, b modelBucket, got store.Result, i int, lone bool) func(*big.Int) (bool, bool) {
	if !d.in.inexact {
		return exactly
	}
	tolerance := b.slack + 4*ulp(op.Capacity, op.Amount, op.Hold, approx(b.level), approx(b.held))
	return func(over *big.Int) (fits, sure bool) {
		switch {
		case math.Abs(approx(over)) > tolerance || got.Err != nil && !errors.Is(got.Err, store.ErrNotHeld):
			return false, true
		case got.Err != nil || len(got.States) <= i:
			return false, false
		case op.Mode == store.Always:
			return true, false
		}
		st := got.States[i]
		if lone || got.Accepted {
			return st.Accepted || op.Mode == store.Clamp && !st.BlockedUntil.IsZero() && st.Spilled == 0, false
		}
		// In a refused transaction a refused operation has a wait. The states do not tell
		// whether a Fillup would have spilled.
		return st.RetryAfter == 0 && (op.Mode != store.Clamp || over.Sign() <= 0), false
	}
}

// compare compares every field of a state except for the wait.
func (d *driver) compare(t *rapid.T, op store.Op, got store.State, b modelBucket, dec decision) {
	if op.Limit == (store.Limit{}) {
		op.Limit = b.limit
	}
	seen, _ := b.believed(d.m.clock)
	now := max(seen.time, d.m.clock)
	level := seen.leaked(now)
	drained := zero
	if dec.drained != nil {
		drained = dec.drained
	}
	near := func(got float64, exact *big.Int) float64 {
		if d.near(got, exact, b, op) {
			return got
		}
		return approx(exact)
	}
	want := store.State{
		Level: near(got.Level, level), Held: near(got.Held, b.held), Spilled: near(got.Spilled, dec.spilled),
		Drained: near(got.Drained, drained), Capacity: op.Capacity, LeakRate: op.LeakRate, RetryAfter: got.RetryAfter,
		At: time.UnixMicro(now), Accepted: dec.accepted, Full: dec.full, Estimate: got.Estimate,
	}
	if seen.until > now {
		want.BlockedUntil = time.UnixMicro(seen.until)
	}
	if d.in.inexact && d.nearRim(level, b, op) {
		want.Full = got.Full
	}
	if diff := differ.Fields(got, want); diff != "" {
		t.Fatalf("%+v at %d:\n%s", op, d.m.clock, diff)
	}
}

// near reports whether got equals want, or, on inexact inputs, differs by no more than rounding
// permits.
func (d *driver) near(got float64, want *big.Int, b modelBucket, op store.Op) bool {
	if math.IsNaN(got) || math.IsInf(got, 0) {
		return false
	}
	if !d.in.inexact {
		return got == approx(want) && quanta(got).Cmp(want) == 0
	}
	rounding := 4 * ulp(op.Capacity, op.Amount, op.Hold, approx(b.level), approx(b.held))
	return math.Abs(approx(sub(quanta(got), want))) <= b.slack+rounding
}

// nearRim reports whether the bucket is so close to its capacity that rounding decides if it is
// full.
func (d *driver) nearRim(level *big.Int, b modelBucket, op store.Op) bool {
	return d.near(op.Capacity, add(level, b.held), b, op)
}

// checkRetry tests the wait: after it the operations must fit, and 2 microseconds earlier they
// must not.
func (d *driver) checkRetry(t *rapid.T, op store.Op, ops []store.Op, got store.State, b modelBucket, dec decision) {
	if dec.accepted {
		if got.RetryAfter != 0 {
			t.Fatalf("%+v was accepted, but has RetryAfter %v", op, got.RetryAfter)
		}
		return
	}
	if slices.ContainsFunc(ops, func(op store.Op) bool { return !op.CeilingAt.IsZero() }) {
		// The ceiling sinks as fast as the bucket leaks, so an amount that does not fit under
		// it never will.
		if got.RetryAfter <= 0 {
			t.Fatalf("%+v was refused, but has RetryAfter %v", op, got.RetryAfter)
		}
		return
	}
	b, _ = b.believed(d.m.clock) // a question leaves a time that is not believed
	if now := max(b.time, d.m.clock); b.until <= now {
		b, _ = b.endOldRate(op.Limit, now) // the wait is by the rate of the call, unless a block lasts
	}
	slack := 0.0
	if d.in.inexact {
		n := float64(len(ops))
		slack = 2*b.slack + 8*ulp(op.Capacity, approx(b.level), approx(b.held), n*op.Amount, n*op.Hold)
	}
	if got.RetryAfter >= store.Never {
		if b.wouldFit(ops, min(store.MaxTime, d.m.clock+store.Never.Microseconds())-1, -slack) {
			t.Fatalf("%+v would fit in time, but has RetryAfter Never", ops)
		}
		return
	}
	wait := got.RetryAfter.Microseconds()
	if got.RetryAfter <= 0 || !b.wouldFit(ops, d.m.clock+wait, slack) {
		t.Fatalf("%+v does not fit after RetryAfter %v: %+v at %d", ops, got.RetryAfter, b, d.m.clock)
	}
	if earlier := wait - 2; earlier > 0 && b.wouldFit(ops, d.m.clock+earlier, -slack) {
		t.Fatalf("%+v fits earlier than RetryAfter %v: %+v at %d", ops, got.RetryAfter, b, d.m.clock)
	}
}

// question returns the Ask about an operation: about the same units in mode IfFits, if op is in
// another mode, and without a penalty.
func question(op store.Op) store.Op {
	if op.Mode != store.IfFits {
		op.Amount, op.Hold = math.Abs(op.Amount), max(0, op.Hold)
	}
	op.Mode, op.BlockFor = store.Ask, 0
	return op
}

// compareRead compares the state that a read of b returned.
func (d *driver) compareRead(t *rapid.T, b store.Bucket, got store.State) {
	d.compare(t, store.Op{Bucket: b}, got, d.m.bucket(b.Key), decision{spilled: zero})
	if got.RetryAfter != 0 {
		t.Fatalf("Read returns RetryAfter %v, want 0", got.RetryAfter)
	}
}
