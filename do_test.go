package brim_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brimgo/brim"
)

func TestDo(t *testing.T) {
	own := errors.New("the function's own")
	for _, tc := range []struct {
		name   string
		limit  brim.Limit
		before float64
		held   float64
		n      float64
		err    error // of the function
		runs   bool
		wait   time.Duration
		says   string
	}{
		{name: "it fits", limit: tens, n: 10, runs: true},
		{name: "the function's error is the answer", limit: tens, n: 1, err: own, runs: true},
		{name: "it does not fit now", limit: tens, before: 4, n: 7, wait: time.Second, says: "brim: over the limit: it would fit in 1s"},
		{name: "it never fits", limit: tens, n: 11, wait: brim.Never, says: "brim: over the limit: it can never fit; the bucket takes 10 units at most"},
		{name: "held", limit: tens, held: 4, n: 7, wait: brim.Never, says: "it can never fit; the bucket takes 6 units at most"},
		{name: "it does not leak", limit: brim.Limit{Capacity: 10}, before: 4, n: 7, wait: brim.Never, says: "6 units are left of 10, and the bucket does not leak"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l, _, _ := open(t, nil)
			ctx := t.Context()
			must(t)(l.TryFillup(ctx, tc.limit.For("secret"), tc.before))
			must(t)(l.Hold(ctx, tc.limit.For("secret"), tc.held))
			ran := false
			err := l.Do(ctx, tc.limit.For("secret"), tc.n, func(inner context.Context) error {
				ran = inner == ctx
				return tc.err
			})
			if ran != tc.runs {
				t.Errorf("the function ran: %v; want %v", ran, tc.runs)
			}
			level := must(t)(l.State(ctx, tc.limit.For("secret"))).Level
			if tc.runs {
				if !errors.Is(err, tc.err) || level != tc.n {
					t.Errorf("got %v, level %v; want %v, %v: an attempt counts", err, level, tc.err, tc.n)
				}
				return
			}
			var over *brim.OverLimitError
			if !errors.Is(err, brim.ErrOverLimit) || !errors.As(err, &over) {
				t.Fatalf("got %v; want an *OverLimitError", err)
			}
			if over.RetryAfter != tc.wait || !strings.HasSuffix(err.Error(), tc.says) || strings.Contains(err.Error(), "secret") {
				t.Errorf("wait %v, %q; want %v, %q, and not the key", over.RetryAfter, err, tc.wait, tc.says)
			}
			if level != tc.before {
				t.Errorf("level %v; want %v: a refusal puts nothing in", level, tc.before)
			}
		})
	}
}

// A store that fails has not said that there is room: the function must not run (trap 19), and the error is not a refusal.
func TestDoStoreFailure(t *testing.T) {
	for _, failure := range []error{brim.ErrUnavailable, brim.ErrUnknownOutcome} {
		l := brim.New(&broken{err: failure}, nil)
		sh, err := brim.NewShaper(l, nil)
		if err != nil {
			t.Fatal(err)
		}
		f := func(context.Context) error { t.Error("ran"); return nil }
		for name, err := range map[string]error{
			"Limiter": l.Do(t.Context(), tens.For("k"), 1, f),
			"Shaper":  sh.Do(t.Context(), tens.For("k"), 1, f),
		} {
			if !errors.Is(err, failure) || errors.Is(err, brim.ErrOverLimit) {
				t.Errorf("%s: got %v; want %v", name, err, failure)
			}
		}
	}
}

func TestShaperDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sh := shaper(t, inMemory(t), 2*time.Second)
		began := time.Now()
		for i := range 3 {
			if err := sh.Do(t.Context(), tens.For("k"), 1, func(context.Context) error { return nil }); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took != time.Duration(i)*time.Second {
				t.Errorf("number %d ran after %v", i+1, took)
			}
		}
		if _, err := sh.Reserve(t.Context(), tens.For("k"), 2); err != nil {
			t.Fatal(err)
		}
		err := sh.Do(t.Context(), tens.For("k"), 1, func(context.Context) error { t.Error("ran"); return nil })
		if over := (*brim.OverLimitError)(nil); !errors.As(err, &over) || over.RetryAfter != time.Second {
			t.Errorf("got %v; want a refusal for a second", err)
		}
	})
}
