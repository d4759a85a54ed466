package brim_test

import (
	"errors"
	"testing"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/brimtest"
	"github.com/brimgo/brim/store"
)

func TestPenalty(t *testing.T) {
	type step struct {
		// One of these is set.
		try, fillup, hold float64       // units for the bucket
		all               float64       // units for the bucket and for another one with room
		reserve           float64       // units, through a Shaper
		advance           time.Duration // of the clock
		reset             bool
		able              bool // AbleToAccept one unit

		accepted bool
		blocked  time.Duration // BlockedUntil, since start; 0 if not blocked
		retry    time.Duration
	}
	const s = time.Second
	tests := []struct {
		name, why string
		penalty   time.Duration
		steps     []step
	}{
		{
			name: "fixed time", why: "until the block ends, even an amount that would fit is refused",
			penalty: 60 * s,
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
			name: "until empty", why: "the block lasts until the level has leaked", penalty: brim.UntilEmpty,
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
			name: "never shortened", why: "an overflow on a clock that stepped back must not end the block earlier",
			penalty: 60 * s,
			steps: []step{
				{try: 8, accepted: true},
				{try: 3, blocked: 60 * s, retry: 60 * s},
				{advance: -20 * s},
				{try: 3, blocked: 60 * s, retry: 80 * s},
			},
		},
		{
			name: "Fillup", why: "a Fillup that spills blocks the bucket too, and its units still go in",
			penalty: 60 * s,
			steps: []step{
				{fillup: 8, accepted: true},
				{fillup: 3, blocked: 60 * s, retry: 60 * s},
				{try: 1, blocked: 60 * s, retry: 60 * s},
			},
		},
		{
			name: "Hold", why: "a hold that does not fit blocks the bucket", penalty: 60 * s,
			steps: []step{
				{hold: 8, accepted: true},
				{hold: 3, blocked: 60 * s, retry: brim.Never},
				{hold: 1, blocked: 60 * s, retry: 60 * s},
			},
		},
		{
			name: "TryFillupAll", why: "only the bucket that refused is blocked", penalty: 60 * s,
			steps: []step{
				{try: 8, accepted: true},
				{all: 3, blocked: 60 * s, retry: 60 * s},
				{try: 1, blocked: 60 * s, retry: 60 * s},
			},
		},
		{
			name: "Reset", why: "an operator lifts the block", penalty: time.Hour,
			steps: []step{{try: 11, blocked: time.Hour, retry: brim.Never}, {reset: true}, {try: 10, accepted: true}},
		},
		{
			name: "Shaper", why: "a caller who cannot wait sets no block, but a Shaper respects blocks",
			penalty: 60 * s,
			steps: []step{
				{try: 8, accepted: true},
				{reserve: 3, retry: s},
				{reserve: 1, accepted: true},
				{try: 9, blocked: 60 * s, retry: 60 * s},
				{reserve: 1, blocked: 60 * s, retry: 60 * s},
			},
		},
		{
			name: "no penalty", why: "without a penalty a refusal sets no block",
			steps: []step{{try: 8, accepted: true}, {try: 3, retry: s}, {try: 2, accepted: true}},
		},
	}
	onEachBackend(t, func(t *testing.T, s store.Store, clock *brimtest.Clock) {
		for _, test := range tests {
			t.Run(test.name, func(t *testing.T) {
				ctx := t.Context()
				clock.Set(start)
				plain := brim.New(s, &brim.Options{Prefix: test.name})
				lim := plain.WithPenalty(test.penalty)
				sh, err := brim.NewShaper(lim, nil)
				if err != nil {
					t.Fatal(err)
				}
				b := tens.For("k")
				for i, step := range test.steps {
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
						other := brim.Fill{Bucket: tens.For("other"), Amount: step.all}
						states, err = lim.TryFillupAll(ctx, other, brim.Fill{Bucket: b, Amount: step.all})
						if err == nil {
							st = states[1]
							if !states[0].BlockedUntil.IsZero() || states[0].RetryAfter != 0 {
								t.Errorf("step %d: the other bucket refused too: %+v", i+1, states[0])
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
							st.Accepted, blocked, st.RetryAfter, step.accepted, step.blocked, step.retry, test.why)
					}
					// A Limiter without a penalty, for instance in another process, finds the
					// same block.
					if seen := must(t)(plain.State(ctx, b)); !seen.BlockedUntil.Equal(st.BlockedUntil) {
						t.Errorf("step %d: blocked until %v in the store; the call reported %v",
							i+1, seen.BlockedUntil, st.BlockedUntil)
					}
				}
			})
		}
	})
}

func TestPenaltyInvalid(t *testing.T) {
	ctx, b := t.Context(), tens.For("k")
	l, _, _ := open(t, nil)
	for _, d := range []time.Duration{-2, -time.Second, time.Nanosecond} {
		if _, err := l.WithPenalty(d).TryFillup(ctx, b, 1); !errors.Is(err, brim.ErrInvalidLimit) {
			t.Errorf("TryFillup with a penalty of %v: %v; want ErrInvalidLimit", d, err)
		}
		_, err := l.WithPenalty(d).TryFillupAll(ctx, brim.Fill{Bucket: b, Amount: 1})
		if !errors.Is(err, brim.ErrInvalidLimit) {
			t.Errorf("TryFillupAll with a penalty of %v: %v; want ErrInvalidLimit", d, err)
		}
	}
	if _, err := brim.New(nil, nil).WithPenalty(time.Second).TryFillup(ctx, b, 1); !errors.Is(err, brim.ErrClosed) {
		t.Errorf("a Limiter without a store: %v; want ErrClosed", err)
	}
	must(t)(l.TryFillup(ctx, b, 10))
	if st := must(t)(l.TryFillup(ctx, b, 1)); !st.BlockedUntil.IsZero() {
		t.Errorf("WithPenalty changed the Limiter that it was called on: %+v; want no block", st)
	}
}

func TestBlock(t *testing.T) {
	onEachBackend(t, func(t *testing.T, s store.Store, clock *brimtest.Clock) {
		ctx := t.Context()
		for _, o := range []*brim.Options{nil, {Prefix: "app:"}} {
			// A penalty of the Limiter has no part in a block.
			l := brim.New(s, o).WithPenalty(time.Hour)
			b := tens.For("k")
			must(t)(l.TryFillup(ctx, b, 8))
			must(t)(l.Hold(ctx, b, 1))
			until := clock.Now().Add(time.Minute)
			if st := must(t)(l.Block(ctx, b, time.Minute)); !st.BlockedUntil.Equal(until) || st.Level != 8 || st.Held != 1 {
				t.Errorf("Block: %+v; want a block until %v, and the level and the held units as before", st, until)
			}
			if st := must(t)(l.AbleToAccept(ctx, b, 1)); st.Accepted || st.RetryAfter != time.Minute {
				t.Errorf("AbleToAccept during the block: %+v; want a wait of a minute", st)
			}
			if st := must(t)(l.Block(ctx, b, time.Second)); !st.BlockedUntil.Equal(until) {
				t.Errorf("a shorter Block: %+v; want the block as before", st)
			}
			clock.Advance(time.Second)
			st := must(t)(l.Unblock(ctx, "k"))
			if !st.BlockedUntil.IsZero() || st.Level != 7 || st.Held != 1 || st.Capacity != 10 {
				t.Errorf("Unblock: %+v; want no block, level 7, 1 held, and the limit last written", st)
			}
			if st := must(t)(l.TryFillup(ctx, b, 2)); !st.Accepted {
				t.Errorf("TryFillup after Unblock: %+v; want it accepted", st)
			}
			if st := must(t)(l.Block(ctx, tens.For("new"), brim.UntilEmpty)); !st.BlockedUntil.IsZero() {
				t.Errorf("Block of an empty bucket until it is empty: %+v; want no block", st)
			}
			if st := must(t)(l.Unblock(ctx, "none")); !st.BlockedUntil.IsZero() || st.Capacity != 0 {
				t.Errorf("Unblock of no bucket: %+v", st)
			}
			var keys []string
			for e, err := range l.List(ctx, "") {
				if err != nil {
					t.Fatal(err)
				}
				keys = append(keys, e.Key)
			}
			if len(keys) != 1 || keys[0] != "k" {
				t.Errorf("the store has %q; want k alone", keys)
			}
			if err := l.Reset(ctx, "k"); err != nil {
				t.Fatal(err)
			}
			for _, d := range []time.Duration{0, time.Nanosecond, -time.Second} {
				if _, err := l.Block(ctx, b, d); !errors.Is(err, brim.ErrInvalidLimit) {
					t.Errorf("Block for %v: %v; want ErrInvalidLimit", d, err)
				}
			}
		}
	})
}
