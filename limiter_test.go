package brim_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/brimtest"
)

func TestMethods(t *testing.T) {
	ctx := t.Context()
	b := tens.For("b")
	at := start
	for _, test := range []struct {
		name, why string
		setup     func(t *testing.T, l *brim.Limiter, clock *brimtest.Clock)
		call      func(l *brim.Limiter) (brim.State, error)
		want      brim.State
	}{
		{
			name: "TryFillup fits", why: "an amount that fits goes in wholly",
			call: func(l *brim.Limiter) (brim.State, error) { return l.TryFillup(ctx, b, 4) },
			want: brim.State{Level: 4, Capacity: 10, LeakRate: 1, At: at, Accepted: true},
		},
		{
			name: "TryFillup does not fit", why: "a refusal is a state, changes nothing, is not Full, and has a wait",
			setup: func(t *testing.T, l *brim.Limiter, _ *brimtest.Clock) { must(t)(l.TryFillup(ctx, b, 8)) },
			call:  func(l *brim.Limiter) (brim.State, error) { return l.TryFillup(ctx, b, 5) },
			want:  brim.State{Level: 8, Capacity: 10, LeakRate: 1, At: at, RetryAfter: 3 * time.Second},
		},
		{
			name:  "Fillup spills",
			why:   "an event that has happened fills the bucket; the excess is reported as Spilled",
			setup: func(t *testing.T, l *brim.Limiter, _ *brimtest.Clock) { must(t)(l.Fillup(ctx, b, 7)) },
			call:  func(l *brim.Limiter) (brim.State, error) { return l.Fillup(ctx, b, 5) },
			want: brim.State{
				Level: 10, Capacity: 10, LeakRate: 1, At: at, Spilled: 2, Full: true, RetryAfter: 5 * time.Second,
			},
		},
		{
			name: "Drain", why: "units given back make room",
			setup: func(t *testing.T, l *brim.Limiter, _ *brimtest.Clock) { must(t)(l.TryFillup(ctx, b, 7)) },
			call:  func(l *brim.Limiter) (brim.State, error) { return l.Drain(ctx, b, 3) },
			want:  brim.State{Level: 4, Drained: 3, Capacity: 10, LeakRate: 1, At: at, Accepted: true},
		},
		{
			name: "Hold", why: "held units take up room beside the level and do not leak",
			setup: func(t *testing.T, l *brim.Limiter, clock *brimtest.Clock) {
				must(t)(l.TryFillup(ctx, b, 3))
				must(t)(l.Hold(ctx, b, 2))
				clock.Advance(time.Hour)
			},
			call: func(l *brim.Limiter) (brim.State, error) { return l.Hold(ctx, b, 4) },
			want: brim.State{Held: 6, Capacity: 10, LeakRate: 1, At: at.Add(time.Hour), Accepted: true},
		},
		{
			name: "Capture", why: "the used units go in and leak from now on; the rest of the hold is free",
			setup: func(t *testing.T, l *brim.Limiter, _ *brimtest.Clock) { must(t)(l.Hold(ctx, b, 8)) },
			call:  func(l *brim.Limiter) (brim.State, error) { return l.Capture(ctx, b, 8, 3) },
			want:  brim.State{Level: 3, Capacity: 10, LeakRate: 1, At: at, Accepted: true},
		},
		{
			name: "Release", why: "an unused hold leaves no units in the bucket",
			setup: func(t *testing.T, l *brim.Limiter, _ *brimtest.Clock) { must(t)(l.Hold(ctx, b, 8)) },
			call:  func(l *brim.Limiter) (brim.State, error) { return l.Release(ctx, b, 8) },
			want:  brim.State{Capacity: 10, LeakRate: 1, At: at, Accepted: true},
		},
		{
			name: "State", why: "a read subtracts the leak and sets neither Accepted nor Full",
			setup: func(t *testing.T, l *brim.Limiter, clock *brimtest.Clock) {
				must(t)(l.TryFillup(ctx, b, 10))
				clock.Advance(4 * time.Second)
			},
			call: func(l *brim.Limiter) (brim.State, error) { return l.State(ctx, b) },
			want: brim.State{Level: 6, Capacity: 10, LeakRate: 1, At: at.Add(4 * time.Second)},
		},
		{
			name: "State of no bucket", why: "a bucket that was never filled is empty",
			call: func(l *brim.Limiter) (brim.State, error) { return l.State(ctx, b) },
			want: brim.State{Capacity: 10, LeakRate: 1, At: at},
		},
		{
			name: "StateOf", why: "an operator knows the key but not the limit",
			setup: func(t *testing.T, l *brim.Limiter, _ *brimtest.Clock) { must(t)(l.TryFillup(ctx, b, 5)) },
			call:  func(l *brim.Limiter) (brim.State, error) { return l.StateOf(ctx, "b") },
			want:  brim.State{Level: 5, Capacity: 10, LeakRate: 1, At: at},
		},
		{
			name: "StateOf of no bucket", why: "a Capacity of 0 means that there is no bucket",
			call: func(l *brim.Limiter) (brim.State, error) { return l.StateOf(ctx, "b") },
			want: brim.State{At: at},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, o := range []*brim.Options{nil, {Prefix: "app:"}} {
				l, _, clock := open(t, o)
				if test.setup != nil {
					test.setup(t, l, clock)
				}
				got, err := test.call(l)
				if err != nil || got != test.want {
					t.Errorf("%s\n got %+v, %v\nwant %+v", test.why, got, err, test.want)
				}
			}
		})
	}
}

func TestDo(t *testing.T) {
	own := errors.New("error of the function")
	for _, test := range []struct {
		name   string
		limit  brim.Limit
		before float64
		held   float64
		n      float64
		err    error         // of the function
		runs   bool          // Do calls the function
		wait   time.Duration // RetryAfter of the refusal
		text   string        // end of the error text
	}{
		{name: "it fits", limit: tens, n: 10, runs: true},
		{name: "Do returns the error of the function", limit: tens, n: 1, err: own, runs: true},
		{
			name: "no room now", limit: tens, before: 4, n: 7, wait: time.Second,
			text: "brim: over the limit: it would fit in 1s",
		},
		{
			name: "larger than the capacity", limit: tens, n: 11, wait: brim.Never,
			text: "brim: over the limit: it can never fit; the bucket takes 10 units at most",
		},
		{
			name:  "larger than a capacity of millions",
			limit: brim.Limit{Capacity: 2e6, LeakRate: 10}, n: 2e6 + 1, wait: brim.Never,
			text: "it can never fit; the bucket takes 2000000 units at most",
		},
		{
			name: "held units take up the room", limit: tens, held: 4, n: 7, wait: brim.Never,
			text: "no leak makes the room; 4 of 10 units are held until somebody releases them",
		},
		{
			name: "no leak", limit: brim.Limit{Capacity: 10}, before: 4, n: 7, wait: brim.Never,
			text: "6 units are left of 10, and the bucket does not leak",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			l, _, _ := open(t, nil)
			ctx := t.Context()
			must(t)(l.TryFillup(ctx, test.limit.For("secret"), test.before))
			must(t)(l.Hold(ctx, test.limit.For("secret"), test.held))
			ran := false
			err := l.Do(ctx, test.limit.For("secret"), test.n, func(inner context.Context) error {
				ran = inner == ctx
				return test.err
			})
			if ran != test.runs {
				t.Errorf("function ran with the caller's context: %v; want %v", ran, test.runs)
			}
			level := must(t)(l.State(ctx, test.limit.For("secret"))).Level
			if test.runs {
				if !errors.Is(err, test.err) || level != test.n {
					t.Errorf("got %v, level %v; want %v, %v: the attempt counts", err, level, test.err, test.n)
				}
				return
			}
			var over *brim.OverLimitError
			if !errors.Is(err, brim.ErrOverLimit) || !errors.As(err, &over) {
				t.Fatalf("got %v; want an *OverLimitError", err)
			}
			text := err.Error()
			if over.RetryAfter != test.wait || !strings.HasSuffix(text, test.text) || strings.Contains(text, "secret") {
				t.Errorf("wait %v, %q; want %v, %q, without the key", over.RetryAfter, err, test.wait, test.text)
			}
			if level != test.before {
				t.Errorf("level %v; want %v: a refusal puts nothing in", level, test.before)
			}
		})
	}
}
