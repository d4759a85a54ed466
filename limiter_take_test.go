package brim_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/brimtest"
	"github.com/brimgo/brim/store"
)

// TestTakeUpTo takes parts of batches on each backend, and sees that a refusal takes nothing.
func TestTakeUpTo(t *testing.T) {
	onEachBackend(t, func(t *testing.T, s store.Store, clock *brimtest.Clock) {
		lim, b := brim.New(s, &brim.Options{Prefix: "p:"}), brim.Limit{Capacity: 10, LeakRate: 1}.For("b")
		for _, c := range []struct {
			after       time.Duration
			least, most float64
			taken       float64
			retry       time.Duration
		}{
			{0, 1, 4, 4, 0},
			{0, 1, 100, 6, 0},
			{0, 1, 100, 0, time.Second},
			{2500 * time.Millisecond, 3, 5, 0, 500 * time.Millisecond},
			{0, 2, 5, 2, 0},
			{0, 11, 12, 0, brim.Never},
		} {
			clock.Advance(c.after)
			st, err := lim.TakeUpTo(t.Context(), b, c.least, c.most)
			if err != nil || st.Taken != c.taken || st.Accepted != (c.taken > 0) || st.RetryAfter != c.retry {
				t.Errorf("from %v to %v: %+v, %v; want %v taken and RetryAfter %v", c.least, c.most, st, err, c.taken, c.retry)
			}
		}
		if st := must(t)(lim.WithPenalty(time.Hour).TakeUpTo(t.Context(), b, 1, 3)); st.BlockedUntil.IsZero() {
			t.Errorf("a refusal with a penalty: %+v", st)
		}
	})
}

// TestTakeUpToSpecial takes under Nobody, Unlimited, Shadow and invalid numbers.
func TestTakeUpToSpecial(t *testing.T) {
	var reported []time.Duration
	shadow := func(_ context.Context, f brim.Fill, err error) {
		over, _ := errors.AsType[*brim.OverLimitError](err)
		reported = append(reported, over.RetryAfter)
	}
	s := inMemory(t)
	lim, tried := brim.New(s, nil), brim.New(s, &brim.Options{Shadow: shadow})
	if st := must(t)(lim.TakeUpTo(t.Context(), brim.Nobody.For("b"), 1, 9)); st.Accepted || st.Taken != 0 || st.RetryAfter != brim.Never {
		t.Errorf("Nobody: %+v", st)
	}
	if st := must(t)(lim.TakeUpTo(t.Context(), brim.Unlimited.For("b"), 1, 9)); !st.Accepted || st.Taken != 9 {
		t.Errorf("Unlimited: %+v", st)
	}
	b := brim.Limit{Capacity: 10, LeakRate: 0}.For("b")
	for _, level := range []float64{6, 10, 10} { // wholly, in part, not at all
		if st := must(t)(tried.TakeUpTo(t.Context(), b, 1, 6)); !st.Accepted || st.Taken != 6 || st.Level != level {
			t.Errorf("Shadow: %+v; want 6 taken and a level of %v", st, level)
		}
	}
	if len(reported) != 2 || reported[0] != brim.Never || reported[1] != brim.Never {
		t.Errorf("Shadow is told of waits %v; want two of %v", reported, brim.Never)
	}
	for _, c := range [][2]float64{{0, 5}, {-1, 5}, {1.5, 5}, {1, 2.5}, {3, 2}} {
		if _, err := lim.TakeUpTo(t.Context(), b, c[0], c[1]); !errors.Is(err, brim.ErrInvalidAmount) {
			t.Errorf("from %v to %v: %v; want ErrInvalidAmount", c[0], c[1], err)
		}
	}
}
