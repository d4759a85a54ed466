package local_test

import (
	"testing"
	"time"

	"github.com/brimgo/brim/local"
	"github.com/brimgo/brim/store"
)

// TestRefusalsBlockFlood calls a thousand times within a second. Each call is refused, and its
// refusal leaves no trace in the store.
func TestRefusalsBlockFlood(t *testing.T) {
	b := store.Limit{Capacity: 10, LeakRate: 1}.For("k")
	full := store.Op{Bucket: b, Amount: 10}
	byHand := store.Op{Bucket: store.Bucket{Key: "k"}, BlockFor: time.Minute, Mode: store.Block}
	penalty := func(n float64) store.Op { return store.Op{Bucket: b, Amount: n, BlockFor: time.Minute} }
	mixed := func(i int) store.Op { return penalty(float64(1 + i%10)) }
	same := func(op store.Op) func(int) store.Op { return func(int) store.Op { return op } }
	question := func(i int) store.Op {
		return store.Op{Bucket: store.Limit{Capacity: 10, LeakRate: 64}.For("k"), Amount: float64(1 + i%10), Mode: store.Ask}
	}
	for _, c := range []struct {
		name          string
		before, first []store.Op // by another process, and through the wrapper
		flood         func(i int) store.Op
		most          int64 // calls of the flood that reach the store
	}{
		{"penalty", []store.Op{full, penalty(1)}, nil, same(penalty(1)), 1},
		{"penalty, and the block is ours", []store.Op{full}, []store.Op{penalty(1)}, same(penalty(1)), 0},
		{"penalty, mixed amounts", []store.Op{full, penalty(1)}, nil, mixed, 1},
		{"penalty on more than the capacity", []store.Op{full, penalty(1)}, nil, same(penalty(11)), 1},
		{"blocked by hand", []store.Op{full, byHand}, nil, mixed, 1},
		{"blocked by our hand", []store.Op{full}, []store.Op{byHand}, mixed, 0},
		{"blocked by our hand before there was a bucket", nil, []store.Op{byHand}, same(penalty(1)), 1},
		{"questions of a full bucket", []store.Op{full}, nil, same(store.Op{Bucket: b, Amount: 2, Mode: store.Ask}), 1},
		{"questions of a blocked bucket", []store.Op{full, byHand}, nil, same(store.Op{Bucket: b, Amount: 2, Mode: store.Ask}), 1},
		{"questions at another rate, mixed amounts", []store.Op{full}, nil, question, 1},
		{"questions at another rate of a blocked bucket", []store.Op{full, byHand}, nil, question, 1},
		{"after more than the capacity", []store.Op{full}, []store.Op{{Bucket: b, Amount: 11}}, same(store.Op{Bucket: b, Amount: 2}), 0},
		{"more than the capacity", nil, nil, same(store.Op{Bucket: b, Amount: 11}), 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			clock := newManual()
			inner := &watched{Store: inMemory(t, clock.Now)}
			s := refusals(t, inner, &local.RefusalsOptions{Clock: clock.Now})
			for _, op := range c.before {
				do(t, inner.Store, op)
			}
			for _, op := range c.first {
				do(t, s, op)
			}
			written := func() store.State {
				states, err := inner.Read(t.Context(), store.Bucket{Key: "k"})
				must(t, err)
				states[0].Level, states[0].At = 0, time.Time{} // time passes
				return states[0]
			}
			before, reached := written(), inner.fills.Load()
			for i := range 1000 {
				op := c.flood(i)
				st := do(t, s, op)
				op.Mode, op.BlockFor = store.Ask, 0
				if want := do(t, inner.Store, op); st.Accepted || st.RetryAfter != want.RetryAfter || !near(st.Level, want.Level) ||
					!st.BlockedUntil.Equal(want.BlockedUntil) {
					t.Fatalf("call %d: %+v; the store answers %+v", i, st, want)
				}
				clock.Advance(time.Millisecond / 2)
			}
			if n := inner.fills.Load() - reached; n > c.most {
				t.Errorf("%d of 1000 calls reached the store, want %d at most", n, c.most)
			}
			if after := written(); after != before {
				t.Errorf("the bucket was %+v, and is %+v", before, after)
			}
		})
	}
}

// TestRefusalsLeaveTraces has calls whose refusal from memory would change the answers of other
// callers.
func TestRefusalsLeaveTraces(t *testing.T) {
	slow, fast := store.Limit{Capacity: 10, LeakRate: 1e-3}.For("k"), store.Limit{Capacity: 10, LeakRate: 1}.For("k")
	block := store.Op{Bucket: store.Bucket{Key: "k"}, BlockFor: 10 * time.Second, Mode: store.Block}
	for _, c := range []struct {
		name, why string
		before    []store.Op // by another process
		first     store.Op   // refused through the wrapper
		after     time.Duration
		second    store.Op // reaches the store
		accepted  bool
	}{
		{
			"penalty without a block", "its refusal sets the block",
			[]store.Op{{Bucket: slow, Amount: 10}},
			store.Op{Bucket: slow, Amount: 1},
			0,
			store.Op{Bucket: slow, Amount: 1, BlockFor: time.Minute},
			false,
		},
		{
			"penalty when the block is over", "its refusal sets the next",
			[]store.Op{{Bucket: slow, Amount: 10}, block},
			store.Op{Bucket: slow, Amount: 1},
			10 * time.Second,
			store.Op{Bucket: slow, Amount: 1, BlockFor: time.Minute},
			false,
		},
		{
			"at another rate before the block", "the bucket leaks at the rate last written while the block lasts",
			[]store.Op{{Bucket: fast, Amount: 10}, block},
			store.Op{Bucket: slow, Amount: 1},
			10 * time.Second,
			store.Op{Bucket: slow, Amount: 1},
			true,
		},
		{
			"after a question at another rate", "the refusal ends the time at the rate last written",
			[]store.Op{{Bucket: fast, Amount: 10}},
			store.Op{Bucket: slow, Amount: 5, Mode: store.Ask},
			0,
			store.Op{Bucket: slow, Amount: 5},
			false,
		},
		{
			"after too large an amount at another rate", "that refusal has not ended the time at the rate last written",
			[]store.Op{{Bucket: fast, Amount: 10}},
			store.Op{Bucket: slow, Amount: 11},
			5 * time.Second,
			store.Op{Bucket: slow, Amount: 5},
			true,
		},
		{
			"too large an amount for an empty bucket", "the state does not show the rate, which the refusal under a ceiling ends",
			[]store.Op{{Bucket: fast, Amount: 10}, {Bucket: fast, Amount: -10, Mode: store.Always}},
			store.Op{Bucket: slow, Amount: 11},
			0,
			store.Op{Bucket: slow, Amount: 5, Ceiling: 4},
			false,
		},
		{
			"too large, with a penalty", "its refusal sets the block",
			[]store.Op{{Bucket: slow, Amount: 10}},
			store.Op{Bucket: slow, Amount: 11},
			0,
			store.Op{Bucket: slow, Amount: 11, BlockFor: time.Minute},
			false,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			clock := newManual()
			inner := &watched{Store: inMemory(t, clock.Now)}
			s := refusals(t, inner, &local.RefusalsOptions{Clock: clock.Now, Remember: time.Hour})
			for _, op := range c.before {
				do(t, inner.Store, op)
			}
			for range 2 {
				if st := do(t, s, c.first); st.Accepted {
					t.Fatalf("the first call: %+v", st)
				}
			}
			clock.Advance(c.after)
			reached := inner.fills.Load()
			if st := do(t, s, c.second); st.Accepted != c.accepted || st.Estimate || inner.fills.Load() != reached+1 {
				t.Errorf("%+v, and %d calls reached the store; want accepted %v by the store\nwhy: %s",
					st, inner.fills.Load()-reached, c.accepted, c.why)
			}
		})
	}
}

// TestRefusalsTwoLimits asks under one limit and fills under another. The questions do not make the
// wrapper forget the refusals.
func TestRefusalsTwoLimits(t *testing.T) {
	clock := newManual()
	inner := &watched{Store: inMemory(t, clock.Now)}
	s := refusals(t, inner, &local.RefusalsOptions{Clock: clock.Now})
	b, other := store.Limit{Capacity: 10, LeakRate: 1}.For("k"), store.Limit{Capacity: 9, LeakRate: 2}.For("k")
	do(t, inner.Store, store.Op{Bucket: b, Amount: 10})
	refused := int64(0)
	for range 100 {
		do(t, s, store.Op{Bucket: other, Amount: 5, Mode: store.Ask})
		before := inner.fills.Load()
		try(t, s, b, 1)
		refused += inner.fills.Load() - before
	}
	if refused != 1 {
		t.Errorf("%d of 100 refusals came from the store, want 1", refused)
	}
}
