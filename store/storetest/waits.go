package storetest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/brimgo/brim/internal/differ"
	"github.com/brimgo/brim/store"
)

// waits asks about amounts and then fills them, on decimal numbers at many times. After exactly the
// RetryAfter of a refusal the same amount must fit, and a microsecond earlier it must not.
func (s *suite) waits(t *testing.T) {
	const why = "RetryAfter is the smallest wait until the same amount fits; an Ask is decided by the same arithmetic " +
		"as the fill, from the stored record, because a wait computed from the level now can be a microsecond off"
	st, clock := s.at(t)
	if !s.supports(store.Op{Bucket: store.Limit{Capacity: 1}.For("k"), Amount: 1, Mode: store.Ask}) {
		t.Skip("the store does not support mode Ask")
	}
	refused, accepted := 0, 0
	for i, limit := range []store.Limit{
		{Capacity: 1, LeakRate: 0.1},
		{Capacity: 0.3, LeakRate: 0.1},
		{Capacity: 9.99, LeakRate: 0.7},
		{Capacity: 100.1, LeakRate: 3.3},
		{Capacity: 10, LeakRate: 3},
		{Capacity: 100, LeakRate: 1.0 / 3},
		{Capacity: 1e6, LeakRate: 1e6 / 3600.0},
		{Capacity: 7, LeakRate: 1e-3},
		{Capacity: 1, LeakRate: 999_983},
		{Capacity: 1 << 53, LeakRate: 1e9},
	} {
		b := limit.For(fmt.Sprintf("waits/%d", i))
		fill := func(op store.Op, apply bool) store.State {
			t.Helper()
			got, err := tryVia(t.Context(), st, op, apply)
			if err != nil {
				t.Fatal(err)
			}
			return got
		}
		end := func(op store.Op) {
			if op.Hold > 0 {
				fill(store.Op{Bucket: b, Hold: -op.Hold, Mode: store.Always}, false)
			}
		}
		now := int64(start)
		clock.set(now)
		fill(store.Op{Bucket: b, Amount: limit.Capacity}, false)
		for j := range 50 {
			now += int64(float64(j%4) * 231_111 * limit.Capacity / limit.LeakRate)
			clock.set(now - int64(j%5/4)*time.Minute.Microseconds()) // behind at times
			op := store.Op{Bucket: b, Amount: limit.Capacity * float64(1+j%10) / 10}
			if j%7 == 3 {
				op.Amount, op.Hold = 0, op.Amount
			}
			question := op
			question.Mode = store.Ask
			asked, got := fill(question, j%3 == 1), fill(op, j%2 == 1)
			if asked.Accepted != got.Accepted || !sameWait(asked, got, asked.RetryAfter) || asked.Full {
				t.Errorf("%+v: the answer to the question, against that to the fill:\n%s\nwhy: %s", op, differ.Fields(asked, got), why)
			}
			if got.Accepted {
				accepted++
				end(op)
				continue
			}
			refused++
			wait := got.RetryAfter
			if wait <= 0 || wait == never || wait%time.Microsecond != 0 {
				t.Fatalf("RetryAfter %v of %+v, want whole microseconds\nwhy: %s", wait, op, why)
			}
			clock.step(wait - time.Microsecond)
			early := fill(op, false)
			clock.step(time.Microsecond)
			then := fill(op, false)
			if then.Estimate && !then.Accepted { // a wrapper that answers from memory may be a microsecond late
				clock.step(time.Microsecond)
				then = fill(op, false)
			}
			if early.Accepted || !sameWait(early, early, time.Microsecond) || !then.Accepted {
				t.Errorf("%+v has RetryAfter %v; a microsecond before the end: %+v, and at the end: %+v\nwhy: %s",
					op, wait, early, then, why)
			}
			end(op)
			now = clock.now().UnixMicro()
		}
	}
	if refused < 100 || accepted < 100 {
		t.Errorf("%d refused, %d accepted: too few to compare", refused, accepted)
	}
}

// sameWait reports whether the answer to a fill has that wait, of the answer to a question. If a
// wrapper has answered one of them from memory, they may differ by a microsecond.
func sameWait(asked, filled store.State, wait time.Duration) bool {
	off := wait - filled.RetryAfter
	return off == 0 || (asked.Estimate || filled.Estimate) && off.Abs() <= time.Microsecond
}

// realClock tests that the store has its own clock, and that the clock runs and does not run
// back.
func (s *suite) realClock(t *testing.T) {
	const why = "the store reads a clock that runs, and that is near the clock of this process"
	st := s.real(t)
	// A thousand units leak in less than a nanosecond, so the bucket is empty at the next tick of
	// the clock.
	fast := store.Limit{Capacity: 1000, LeakRate: 1 << 53}.For("fast")
	slow := store.Limit{Capacity: 1000}.For("slow")
	var last time.Time
	for i := range 20 {
		got, err := st.Fill(t.Context(), store.Op{Bucket: slow, Amount: 1})
		if err != nil || got.Level != float64(i+1) || got.At.Before(last) {
			t.Fatalf("fill %d, after one at %v: %+v, %v\nwhy: %s", i+1, last, got, err, why)
		}
		last = got.At
	}
	if off := time.Since(last).Abs(); off > store.DefaultMaxSkew {
		t.Errorf("the store's clock is %v away from this process's clock\nwhy: %s", off, why)
	}
	if _, err := st.Fill(t.Context(), store.Op{Bucket: fast, Amount: 1000, Mode: store.Always}); err != nil {
		t.Fatal(err)
	}
	s.crowd(t, why, 1, func(ctx context.Context, _ int) error {
		for {
			if got, err := st.Read(ctx, fast); err != nil || got[0].Level == 0 {
				return err
			}
		}
	})
}
