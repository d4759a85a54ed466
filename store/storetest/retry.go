package storetest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/brimgo/brim/store"
)

// retry waits for exactly the RetryAfter of a refusal, on the injected clock. Then the same
// amount must fit, and a microsecond earlier it must not.
func (s *suite) retry(t *testing.T) {
	const why = "RetryAfter is the smallest wait until the same amount fits: a client that waits so long is let in"
	st, clock := s.at(t)
	cases := []struct {
		limit     store.Limit
		level, n  float64
		hold      float64
		behind    time.Duration // the clock then steps back by this
		exhausted bool          // the amount exceeds the capacity less the held units
	}{
		{limit: store.Limit{Capacity: 10, LeakRate: 1}, level: 9.5, n: 1},
		{limit: store.Limit{Capacity: 10, LeakRate: 3}, level: 10, n: 1},
		{limit: store.Limit{Capacity: 10, LeakRate: 3}, level: 10, n: 10},
		{limit: store.Limit{Capacity: 0.3, LeakRate: 0.1}, level: 0.3, n: 0.1},
		{limit: store.Limit{Capacity: 0.3, LeakRate: 0.1}, level: 0.2, n: 0.2},
		{limit: store.Limit{Capacity: 100, LeakRate: 0.7}, level: 99.9, n: 33.3},
		{limit: store.Limit{Capacity: 100, LeakRate: 1.0 / 3}, level: 100, n: 0.01},
		{limit: store.Limit{Capacity: 1e6, LeakRate: 1e6 / 3600.0}, level: 999_999, n: 12_345},
		{limit: store.Limit{Capacity: 7, LeakRate: 1e-3}, level: 6.9, n: 6.9},
		{limit: store.Limit{Capacity: 1, LeakRate: 999_983}, level: 1, n: 1},
		{limit: store.Limit{Capacity: 1 << 53, LeakRate: 1e9}, level: 1 << 53, n: 1e12},
		{limit: store.Limit{Capacity: 10, LeakRate: 3}, level: 5, hold: 4, n: 6},
		{limit: store.Limit{Capacity: 10, LeakRate: 3}, level: 5, hold: 4, n: 6.5, exhausted: true},
		{limit: store.Limit{Capacity: 10, LeakRate: 3}, level: 10, n: 1, behind: time.Minute},
		{limit: store.Limit{Capacity: 0.3, LeakRate: 0.1}, level: 0.3, n: 0.1, behind: 4 * time.Minute},
	}
	for i, c := range cases {
		t.Run(fmt.Sprintf("%v of %v after %v", c.n, c.limit, c.level), func(t *testing.T) {
			b := c.limit.For(fmt.Sprintf("retry/%d", i))
			now := start + int64(i)*(24*time.Hour).Microseconds()
			clock.set(now)
			fill := func(op store.Op) store.State {
				t.Helper()
				got, err := st.Fill(t.Context(), op)
				if err != nil {
					t.Fatal(err)
				}
				return got
			}
			fill(store.Op{Bucket: b, Amount: c.level, Mode: store.Always})
			if c.hold > 0 {
				fill(store.Op{Bucket: b, Hold: c.hold})
			}
			clock.step(-c.behind)
			now = clock.now().UnixMicro()
			op := store.Op{Bucket: b, Amount: c.n}
			got := fill(op)
			if got.Accepted {
				t.Fatalf("accepted: %+v", got)
			}
			if c.exhausted {
				if got.RetryAfter != never {
					t.Errorf("RetryAfter %v, want Never\nwhy: %s", got.RetryAfter, why)
				}
				return
			}
			wait := got.RetryAfter
			if wait <= 0 || wait == never || wait%time.Microsecond != 0 {
				t.Fatalf("RetryAfter %v, want whole microseconds\nwhy: %s", wait, why)
			}
			clock.set(now + wait.Microseconds() - 1)
			if got := fill(op); got.Accepted {
				t.Errorf("accepted a microsecond before %v\nwhy: %s", wait, why)
			} else if got.RetryAfter != time.Microsecond {
				t.Errorf("a microsecond before %v: RetryAfter %v\nwhy: %s", wait, got.RetryAfter, why)
			}
			clock.set(now + wait.Microseconds())
			if got := fill(op); !got.Accepted {
				t.Errorf("refused after %v: %+v\nwhy: %s", wait, got, why)
			}
		})
	}
}

// sameWait reports whether wait, of the answer to a question, equals that of the answer to the
// fill. If a wrapper has answered one of them from memory, they may differ by a microsecond.
func sameWait(asked, filled store.State, wait time.Duration) bool {
	off := wait - filled.RetryAfter
	return off == 0 || (asked.Estimate || filled.Estimate) && off.Abs() <= time.Microsecond
}

// questions asks about amounts, and then fills them, on decimal numbers at many times.
func (s *suite) questions(t *testing.T) {
	const why = "an Ask is decided by the same arithmetic as the fill, from the stored record; a wait that is " +
		"computed from the level now can be a microsecond off"
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
	} {
		b := limit.For(fmt.Sprintf("question/%d", i))
		if _, err := st.Fill(t.Context(), store.Op{Bucket: b, Amount: limit.Capacity}); err != nil {
			t.Fatal(err)
		}
		for j := range 100 {
			clock.step(173_333 * time.Microsecond)
			op := store.Op{Bucket: b, Amount: limit.Capacity * float64(j%11) / 10}
			if j%7 == 3 {
				op.Amount, op.Hold = 0, op.Amount
			}
			question := op
			question.Mode = store.Ask
			asked, err := tryVia(t.Context(), st, question, j%3 == 1)
			if err != nil {
				t.Fatal(err)
			}
			got, err := tryVia(t.Context(), st, op, j%2 == 1)
			if err != nil {
				t.Fatal(err)
			}
			if asked.Accepted != got.Accepted || !sameWait(asked, got, asked.RetryAfter) || asked.Full {
				t.Errorf("%+v:\n asked %+v\nfilled %+v\nwhy: %s", op, asked, got, why)
			}
			if got.Accepted && op.Hold > 0 {
				release := store.Op{Bucket: b, Hold: -op.Hold, Mode: store.Always}
				if _, err := st.Fill(t.Context(), release); err != nil {
					t.Fatal(err)
				}
			}
			if got.Accepted {
				accepted++
			} else {
				refused++
			}
		}
	}
	if refused < 100 || accepted < 40 {
		t.Errorf("%d refused, %d accepted: too few to compare", refused, accepted)
	}
}

// realClock tests that the store has its own clock, and that the clock runs and does not run
// back.
func (s *suite) realClock(t *testing.T) {
	st := s.real(t)
	// A thousand units leak in less than a nanosecond, so the bucket is empty at the next tick
	// of the clock.
	fast := store.Limit{Capacity: 1000, LeakRate: 1 << 53}.For("fast")
	slow := store.Limit{Capacity: 1000, LeakRate: 0}.For("slow")
	var last time.Time
	for range 20 {
		got, err := st.Fill(t.Context(), store.Op{Bucket: slow, Amount: 1})
		if err != nil || !got.Accepted {
			t.Fatalf("fill: %+v, %v", got, err)
		}
		if got.At.Before(last) {
			t.Fatalf("the bucket's time went back from %v to %v", last, got.At)
		}
		last = got.At
	}
	if off := time.Since(last).Abs(); off > store.DefaultMaxSkew {
		t.Errorf("the store's clock is %v away from this process's clock", off)
	}
	if got, err := st.Read(t.Context(), slow); err != nil || got[0].Level != 20 {
		t.Errorf("bucket without a leak: %+v, %v; want level 20", got, err)
	}
	if _, err := st.Fill(t.Context(), store.Op{Bucket: fast, Amount: 1000, Mode: store.Always}); err != nil {
		t.Fatal(err)
	}
	s.finishes(t, "reads of a bucket that leaks on the store's clock", func(ctx context.Context) {
		for {
			got, err := st.Read(ctx, fast)
			if err != nil || got[0].Level == 0 {
				if err != nil {
					t.Errorf("read: %v", err)
				}
				return
			}
		}
	})
}
