package brim_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/store"
)

func TestPenalty(t *testing.T) {
	type step struct {
		try, fillup, hold float64 // units of tens, or
		all               float64 // units of two buckets, of which the other has room, or
		reserve           float64 // through a Shaper, or
		advance           time.Duration
		reset             bool
		able              bool // ask for 1 unit

		accepted bool
		blocked  time.Duration // until then, since start; 0 for not blocked
		retry    time.Duration
	}
	const s = time.Second
	for _, tc := range []struct {
		name, why string
		penalty   time.Duration
		steps     []step
	}{
		{
			name: "for a fixed time", why: "even what would fit is refused until the block ends", penalty: 60 * s,
			steps: []step{
				{try: 8, accepted: true},
				{try: 3, blocked: 60 * s, retry: 60 * s},
				{advance: 30 * s},
				{try: 1, blocked: 90 * s, retry: 60 * s},
				{able: true, blocked: 90 * s, retry: 60 * s},
				{advance: 60 * s},
				{able: true, accepted: true},
				{try: 1, accepted: true},
			},
		},
		{
			name: "until empty", why: "the block lasts as long as what the bucket holds takes to leak", penalty: brim.UntilEmpty,
			steps: []step{
				{try: 8, accepted: true},
				{advance: 3 * s},
				{try: 6, blocked: 8 * s, retry: 5 * s},
				{advance: 4 * s},
				{try: 1, blocked: 8 * s, retry: s},
				{advance: s},
				{try: 10, accepted: true},
			},
		},
		{
			name: "never shortened", why: "a later overflow with less in the bucket would end it earlier", penalty: 60 * s,
			steps: []step{
				{try: 8, accepted: true}, {try: 3, blocked: 60 * s, retry: 60 * s}, {advance: -20 * s}, {try: 3, blocked: 60 * s, retry: 80 * s},
			},
		},
		{
			name: "Fillup", why: "an overflow is an overflow, however it came about; what has happened anyway still goes in", penalty: 60 * s,
			steps: []step{
				{fillup: 8, accepted: true}, {fillup: 3, blocked: 60 * s, retry: 60 * s}, {try: 1, blocked: 60 * s, retry: 60 * s},
			},
		},
		{
			name: "Hold", why: "a hold that does not fit is an overflow", penalty: 60 * s,
			steps: []step{{hold: 8, accepted: true}, {hold: 3, blocked: 60 * s, retry: brim.Never}, {hold: 1, blocked: 60 * s, retry: 60 * s}},
		},
		{
			name: "TryFillupAll", why: "only the bucket that refused is blocked", penalty: 60 * s,
			steps: []step{{try: 8, accepted: true}, {all: 3, blocked: 60 * s, retry: 60 * s}, {try: 1, blocked: 60 * s, retry: 60 * s}},
		},
		{
			name: "Reset", why: "an operator lifts it", penalty: time.Hour,
			steps: []step{{try: 11, blocked: time.Hour, retry: brim.Never}, {reset: true}, {try: 10, accepted: true}},
		},
		{
			name: "a Shaper", why: "how long somebody would wait is nobody else's fault, but a block is a block", penalty: 60 * s,
			steps: []step{
				{try: 8, accepted: true},
				{reserve: 3, retry: s},
				{reserve: 1, accepted: true},
				{try: 9, blocked: 60 * s, retry: 60 * s},
				{reserve: 1, blocked: 60 * s, retry: 60 * s},
			},
		},
		{
			name: "none", why: "without a penalty a refusal is only that",
			steps: []step{{try: 8, accepted: true}, {try: 3, retry: s}, {try: 2, accepted: true}},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			onEachBackend(t, func(t *testing.T, s store.Store, clock *ticking) {
				ctx := t.Context()
				plain := brim.New(s, nil)
				lim := plain.WithPenalty(tc.penalty)
				sh, err := brim.NewShaper(lim, nil)
				if err != nil {
					t.Fatal(err)
				}
				b := tens.For("k")
				for i, step := range tc.steps {
					var st brim.State
					var err error
					switch {
					case step.reset:
						if err := lim.Reset(ctx, "k"); err != nil {
							t.Fatal(err)
						}
						continue
					case step.advance != 0:
						clock.Advance(step.advance)
						continue
					case step.able:
						st, err = lim.AbleToAccept(ctx, b, 1)
					case step.all > 0:
						var states []brim.State
						other := tens.For("other")
						states, err = lim.TryFillupAll(ctx, brim.Fill{Bucket: other, Amount: step.all}, brim.Fill{Bucket: b, Amount: step.all})
						if err == nil {
							st = states[1]
							if !states[0].BlockedUntil.IsZero() || states[0].RetryAfter != 0 {
								t.Errorf("step %d: the other bucket is %+v", i+1, states[0])
							}
						}
					case step.reserve > 0:
						var r *brim.Reservation
						if r, err = sh.Reserve(ctx, b, step.reserve); err == nil {
							st = r.State
						}
					case step.fillup > 0:
						st, err = lim.Fillup(ctx, b, step.fillup)
					case step.hold > 0:
						st, err = lim.Hold(ctx, b, step.hold)
					default:
						st, err = lim.TryFillup(ctx, b, step.try)
					}
					if err != nil {
						t.Fatal(err)
					}
					var blocked time.Duration
					if !st.BlockedUntil.IsZero() {
						blocked = st.BlockedUntil.Sub(start)
					}
					if st.Accepted != step.accepted || blocked != step.blocked || st.RetryAfter != step.retry {
						t.Errorf("step %d: accepted %v, blocked until %v, wait %v; want %v, %v, %v: %s", i+1,
							st.Accepted, blocked, st.RetryAfter, step.accepted, step.blocked, step.retry, tc.why)
					}
					// A Limiter without a penalty, in another process for instance, finds the same.
					if seen := must(t)(plain.State(ctx, b)); !seen.BlockedUntil.Equal(st.BlockedUntil) {
						t.Errorf("step %d: stored %v; the call said %v", i+1, seen.BlockedUntil, st.BlockedUntil)
					}
				}
			})
		})
	}
}

func TestPenaltyInvalid(t *testing.T) {
	l, _, _ := open(t, nil)
	for _, d := range []time.Duration{-2, -time.Second, time.Nanosecond} {
		if _, err := l.WithPenalty(d).TryFillup(t.Context(), tens.For("k"), 1); !errors.Is(err, brim.ErrInvalidLimit) {
			t.Errorf("a penalty of %v: %v", d, err)
		}
		if _, err := l.WithPenalty(d).TryFillupAll(t.Context(), brim.Fill{Bucket: tens.For("k"), Amount: 1}); !errors.Is(err, brim.ErrInvalidLimit) {
			t.Errorf("a penalty of %v, several buckets: %v", d, err)
		}
	}
	if _, err := brim.New(nil, nil).WithPenalty(time.Second).TryFillup(context.Background(), tens.For("k"), 1); !errors.Is(err, brim.ErrClosed) {
		t.Errorf("a Limiter without a store: %v", err)
	}
	must(t)(l.TryFillup(t.Context(), tens.For("k"), 10))
	if st := must(t)(l.TryFillup(t.Context(), tens.For("k"), 1)); !st.BlockedUntil.IsZero() {
		t.Errorf("WithPenalty changed the Limiter that it was called on: %+v", st)
	}
}
