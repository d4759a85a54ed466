package storetest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/brimgo/brim/internal/differ"
	"github.com/brimgo/brim/store"
)

// cases plays all scripts in one store, each on its own keys.
func (s *suite) cases(t *testing.T) {
	st, clock := s.at(t)
	for i, c := range slices.Concat(fillCases, blockCases, timeCases, txnCases, quotaCases) {
		clock.set(cmp.Or(c.from, start+int64(i)*(24*time.Hour).Microseconds()))
		t.Run(c.name, func(t *testing.T) { s.play(t, &c, st, clock, fmt.Sprintf("case%d/", i)) })
	}
}

// play plays one case, unless it needs an operation that the store does not support.
func (s *suite) play(t *testing.T, c *testCase, st store.Store, clock *manualClock, prefix string) {
	for _, step := range c.steps {
		if txn := c.ops(step, prefix, clock.now()); !s.supports(txn...) {
			t.Log("left out because the store does not support an operation")
			return
		}
	}
	r := &runner{t: t, c: c, st: st, clock: clock, prefix: prefix}
	for i, step := range c.steps {
		clock.step(step.wait)
		r.at = i + 1
		r.run(step)
	}
}

// runner plays one case.
type runner struct {
	t      *testing.T
	c      *testCase
	st     store.Store
	clock  *manualClock
	prefix string
	at     int // number of the step, from 1
}

func (r *runner) errorf(format string, args ...any) {
	r.t.Helper()
	r.t.Errorf("step %d: %s\nwhy: %s", r.at, fmt.Sprintf(format, args...), r.c.why)
}

// run carries out one step and compares the answer.
func (r *runner) run(s step) {
	r.t.Helper()
	var before []store.Entry
	if s.changesNothing() {
		before = entriesOf(r.t, r.st, r.prefix)
	}
	ctx := r.t.Context()
	switch s.action {
	case doFill:
		op := r.c.ops(s, r.prefix, r.clock.now())[0]
		got, err := r.st.Fill(ctx, op)
		r.check("Fill", op.Limit, got, err, s.want)
		if err == nil && !s.lags {
			r.checkRead(op.Bucket, got)
		}
	case doApply:
		r.apply(s)
	case doRead, doReadLast:
		b, limit := store.Bucket{Key: r.prefix + s.key}, s.op.Limit
		if s.action == doRead {
			if !s.limited {
				limit = store.Limit{Capacity: r.c.c, LeakRate: r.c.r}
			}
			b.Limit = limit
		}
		got, err := r.st.Read(ctx, b)
		if err != nil || len(got) != 1 {
			r.errorf("Read of one bucket: %d states, %v", len(got), err)
			return
		}
		r.check("Read", limit, got[0], nil, s.want)
	case doDelete:
		if err := r.st.Delete(ctx, r.prefix+s.key); err != nil {
			r.errorf("Delete: %v", err)
		}
	case doRows:
		var want []string
		for _, key := range s.rows {
			want = append(want, r.prefix+key)
		}
		if got := visited(r.t, r.st, r.prefix); !slices.Equal(got, want) {
			r.errorf("Visit visits %q, want %q", got, want)
		}
	}
	if s.changesNothing() {
		if d := differ.Fields(entriesOf(r.t, r.st, r.prefix), before); d != "" {
			r.errorf("the call changed the buckets:\n%s", d)
		}
	}
}

// apply carries out a step that is a transaction.
func (r *runner) apply(s step) {
	r.t.Helper()
	txn := r.c.ops(s, r.prefix, r.clock.now())
	res, err := r.st.Apply(r.t.Context(), txn)
	if err != nil || len(res) != 1 {
		r.errorf("Apply: %d results, %v; want one result, with the transaction's error in its Err", len(res), err)
		return
	}
	if s.want.err != nil {
		if !is(res[0].Err, s.want.err) || res[0].Accepted {
			r.errorf("Apply: %+v, want Err %v", res[0], s.want.err)
		}
		return
	}
	if res[0].Err != nil || res[0].Accepted == s.refused || len(res[0].States) != len(txn) {
		r.errorf("Apply: %+v, want accepted = %v and %d states", res[0], !s.refused, len(txn))
		return
	}
	for i, one := range s.all {
		r.check(fmt.Sprintf("operation %d of Apply", i), txn[i].Limit, res[0].States[i], nil, one.want)
	}
}

// errPeriod stands for any [*store.PeriodError] in a case.
var errPeriod error = new(store.PeriodError)

func is(err, want error) bool {
	if want == errPeriod {
		_, is := errors.AsType[*store.PeriodError](err)
		return is
	}
	return errors.Is(err, want)
}

// check compares every field of a State, except for the limit if limit is zero.
func (r *runner) check(call string, limit store.Limit, got store.State, err error, want want) {
	r.t.Helper()
	if want.err != nil || err != nil {
		if !is(err, want.err) || want.err == nil {
			r.errorf("%s: error %v, want %v", call, err, want.err)
		}
		return
	}
	full := store.State{
		Level: want.level, Held: want.held, Spilled: want.spilled,
		Taken: want.taken, Drained: want.drained, RetryAfter: want.retry, At: r.clock.now().Add(want.ahead), Accepted: want.accepted, Full: want.full,
		Estimate: got.Estimate,
	}
	leaking := limit
	if want.leaks != nil {
		leaking.LeakRate = *want.leaks
	}
	full.SetLimit(leaking)
	if want.blocked != 0 {
		full.BlockedUntil = full.At.Add(want.blocked)
	}
	if limit == (store.Limit{}) {
		full.Capacity, full.LeakRate, full.Empties = got.Capacity, got.LeakRate, got.Empties
	}
	if retryMatches(got.RetryAfter, want.retry) {
		full.RetryAfter = got.RetryAfter
	}
	if d := differ.Fields(got, full); d != "" {
		r.errorf("%s:\n%s", call, d)
	}
}

// checkRead tests that a read returns the state that the fill left, and no answer.
func (r *runner) checkRead(b store.Bucket, filled store.State) {
	r.t.Helper()
	want := store.State{
		Level: filled.Level, Held: filled.Held, Capacity: filled.Capacity, LeakRate: filled.LeakRate, Empties: filled.Empties,
		At: filled.At, BlockedUntil: filled.BlockedUntil,
	}
	got, err := r.st.Read(r.t.Context(), b)
	if err == nil && len(got) == 1 {
		want.Estimate = got[0].Estimate // a wrapper may have answered the fill, or the read, from memory
	}
	if d := differ.Fields(got, []store.State{want}); err != nil || d != "" {
		r.errorf("Read after the fill, error %v:\n%s", err, d)
	}
}
