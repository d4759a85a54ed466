package storetest

import (
	"slices"
	"time"

	"github.com/brimgo/brim/store"
)

// testCase is a script for a store with an injected clock, with the reason of the rule that it
// guards.
type testCase struct {
	from  int64 // the time at the first step, in microseconds since 1970; 0 means any
	name  string
	why   string
	c, r  float64 // capacity and leak rate of steps that set no other limit
	steps []step
}

// action is the method that a step calls.
type action uint8

const (
	doFill action = iota
	doApply
	doRead
	doReadLast
	doDelete
	doRows
)

// step is one call and the expected answer.
type step struct {
	action  action
	key     string
	op      store.Op
	all     []step        // the operations of a transaction
	limited bool          // op has a limit of its own
	wait    time.Duration // the clock moves by this before the call; it may be negative
	rows    []string      // expected keys
	refused bool          // the transaction is refused
	heals   bool          // a refusal that writes, because it finds a time that is not believed
	kept    bool          // a refusal that does not write, although it carries a penalty
	lags    bool          // a later read finds a lower level, by leaks that were lost in the rounding of the level
	want    want
}

// want is an expected State, with times relative to the clock.
type want struct {
	accepted, full       bool
	level, held, spilled float64
	retry                time.Duration
	blocked              time.Duration // from At to BlockedUntil; 0 if not blocked
	ahead                time.Duration // from the clock to At
	drained, taken       float64
	leaks                *float64 // rate, as in a Limit, at which the bucket leaks; nil if that of the call
	err                  error
}

func fill(mode store.Mode, amount, hold float64) step {
	return step{key: "a", op: store.Op{Mode: mode, Amount: amount, Hold: hold}}
}

func try(n float64) step    { return fill(store.IfFits, n, 0) }
func fillup(n float64) step { return fill(store.Clamp, n, 0) }
func always(n float64) step { return fill(store.Always, n, 0) }
func drain(n float64) step  { return fill(store.Always, -n, 0) }
func hold(n float64) step   { return fill(store.IfFits, 0, n) }
func capture(held, used float64) step {
	return fill(store.Always, used, -held)
}
func release(n float64) step { return fill(store.Always, 0, -n) }
func ask(n float64) step     { return fill(store.Ask, n, 0) }

func upTo(least, most float64) step {
	s := fill(store.UpTo, most, 0)
	s.op.Least = least
	return s
}

func block(d time.Duration) step { return fill(store.Block, 0, 0).penalty(d) }

// unblock asks for the state by the limit of the case.
func unblock() step { return fill(store.Unblock, 0, 0) }

// read reads by the limit of the case, readLast by the limit last written.
func read() step     { return step{action: doRead, key: "a"} }
func readLast() step { return step{action: doReadLast, key: "a"} }

func remove(key string) step      { return step{action: doDelete, key: key} }
func rows(keys ...string) step    { return step{action: doRows, rows: keys} }
func apply(steps ...step) step    { return step{action: doApply, all: steps} }
func refuse(steps ...step) step   { return step{action: doApply, all: steps, refused: true} }
func (s step) on(key string) step { s.key = key; return s }

// after moves the clock by d before the step.
func (s step) after(d time.Duration) step { s.wait = d; return s }

// limit sets another limit than that of the case.
func (s step) limit(c, r float64) step {
	s.op.Limit, s.limited = store.Limit{Capacity: c, LeakRate: r}, true
	return s
}

// per sets a quota of c units in the period from begins to ends, in microseconds since 1970.
func (s step) per(c float64, begins, ends int64) step {
	s = s.limit(c, -float64(ends))
	s.op.Begins = begins
	return s
}

func (s step) ceiling(c float64) step { s.op.Ceiling = c; return s }

// since sets CeilingAt to that long before the clock. Until then it is relative to 1970.
func (s step) since(ago time.Duration) step { s.op.CeilingAt = time.Unix(0, 0).Add(-ago); return s }

func (s step) penalty(d time.Duration) step { s.op.BlockFor = d; return s }

// still says that the step changes nothing, although it carries a penalty.
func (s step) still() step { s.kept = true; return s }

// These methods set the expected answer. A step that is ok is accepted; full is accepted and
// fills the bucket; no is refused; is reads; spill is a Fillup that does not fit.

func (s step) ok(level float64) step   { s.want.accepted, s.want.level = true, level; return s }
func (s step) full(level float64) step { s.want.full = true; return s.ok(level) }
func (s step) is(level float64) step   { s.want.level = level; return s }

func (s step) no(level float64, retry time.Duration) step {
	s.want.level, s.want.retry = level, retry
	return s
}

func (s step) spill(level, spilled float64, retry time.Duration) step {
	s.want.full, s.want.spilled = true, spilled
	return s.no(level, retry)
}

func (s step) took(n float64) step          { s.want.drained = n; return s }
func (s step) gave(n float64) step          { s.want.taken = n; return s }
func (s step) held(h float64) step          { s.want.held = h; return s }
func (s step) blocked(d time.Duration) step { s.want.blocked = d; return s }
func (s step) ahead(d time.Duration) step   { s.want.ahead = d; return s }
func (s step) leaks(rate float64) step      { s.want.leaks = &rate; return s }
func (s step) fails(err error) step         { s.want.err = err; return s }

func (s step) mends() step   { s.heals = true; return s }
func (s step) lagging() step { s.lags = true; return s }

// changesNothing reports whether the step must leave every bucket unchanged.
func (s step) changesNothing() bool {
	if s.heals {
		return false
	}
	switch s.action {
	case doRead, doReadLast, doRows:
		return true
	case doFill:
		switch s.op.Mode {
		case store.Ask:
			return true
		case store.Block, store.Unblock:
			return false
		}
		refused := !s.want.accepted && s.op.Mode != store.Clamp
		return s.want.err != nil || s.kept || s.op.BlockFor == 0 && (refused || s.op.Amount == 0 && s.op.Hold == 0)
	case doApply:
		return s.refused && !slices.ContainsFunc(s.all, func(s step) bool { return s.op.BlockFor != 0 && !s.kept })
	}
	return false
}

// ops returns the operations of a step in the case.
func (c *testCase) ops(s step, prefix string, now time.Time) store.Txn {
	switch s.action {
	case doFill:
		op := s.op
		if !s.limited {
			op.Limit = store.Limit{Capacity: c.c, LeakRate: c.r}
		}
		op.Key = prefix + s.key
		if !op.CeilingAt.IsZero() {
			op.CeilingAt = now.Add(op.CeilingAt.Sub(time.Unix(0, 0)))
		}
		return store.Txn{op}
	case doApply:
		var txn store.Txn
		for _, one := range s.all {
			txn = append(txn, c.ops(one, prefix, now)...)
		}
		return txn
	}
	return nil
}
