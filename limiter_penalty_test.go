package brim_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/memory"
	"github.com/brimgo/brim/store"
)

// TestPenalty has each method meet a bucket with room for 2 units. The conformance suite has the
// rules of a block.
func TestPenalty(t *testing.T) {
	ctx, b := t.Context(), tens.For("k")
	for _, c := range []struct {
		name, why string
		call      func(l *brim.Limiter) (brim.State, error)
		level     float64
		retry     time.Duration
		blocks    bool
	}{
		{
			"TryFillup", "nothing goes in before the end of the block",
			func(l *brim.Limiter) (brim.State, error) { return l.TryFillup(ctx, b, 3) },
			8, time.Minute, true,
		},
		{
			"Fillup", "its units still go in",
			func(l *brim.Limiter) (brim.State, error) { return l.Fillup(ctx, b, 3) },
			10, time.Minute, true,
		},
		{
			"Hold", "a hold needs room, too",
			func(l *brim.Limiter) (brim.State, error) { return l.Hold(ctx, b, 3) },
			8, time.Minute, true,
		},
		{
			"TryFillupAll", "only the bucket that refused is blocked",
			func(l *brim.Limiter) (brim.State, error) {
				other := brim.Fill{Bucket: tens.For("other"), Amount: 3}
				states, err := l.TryFillupAll(ctx, other, brim.Fill{Bucket: b, Amount: 3})
				if err != nil {
					return brim.State{}, err
				}
				if !states[0].BlockedUntil.IsZero() || states[0].RetryAfter != 0 {
					t.Errorf("the other bucket refused too: %+v", states[0])
				}
				return states[1], nil
			}, 8, time.Minute, true,
		},
		{
			"Do", "the error has the refusal",
			func(l *brim.Limiter) (brim.State, error) {
				return givenUp(l.Do(ctx, b, 3, func(context.Context) error { return nil })), nil
			}, 8, time.Minute, true,
		},
		{
			"an amount that fits", "it is no overflow",
			func(l *brim.Limiter) (brim.State, error) { return l.TryFillup(ctx, b, 2) },
			10, 0, false,
		},
		{
			"AbleToAccept", "a question blocks nothing",
			func(l *brim.Limiter) (brim.State, error) { return l.AbleToAccept(ctx, b, 3) },
			8, time.Second, false,
		},
		{
			"Shaper", "a caller who cannot wait must not block the others",
			func(l *brim.Limiter) (brim.State, error) { return reserve(t, l, b, 3).State, nil },
			8, time.Second, false,
		},
		{
			"without a penalty", "a refusal blocks nothing",
			func(l *brim.Limiter) (brim.State, error) { return l.WithPenalty(0).TryFillup(ctx, b, 3) },
			8, time.Second, false,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			plain, _, clock := open(t, &brim.Options{Prefix: "p:"})
			must(t)(plain.TryFillup(ctx, b, 8))
			st := must(t)(c.call(plain.WithPenalty(time.Minute)))
			var until time.Time
			if c.blocks {
				until = start.Add(time.Minute)
			}
			if st.Accepted != (c.retry == 0) || st.Level != c.level || st.RetryAfter != c.retry ||
				!st.BlockedUntil.Equal(until) {
				t.Errorf("%+v; want level %v, RetryAfter %v, blocked until %v: %s", st, c.level, c.retry, until, c.why)
			}
			if !c.blocks {
				until = start
			}
			// A Limiter without a penalty, and a Shaper, find the same block.
			for clock.Advance(59 * time.Second); ; clock.Advance(time.Second) {
				free := !clock.Now().Before(until)
				able, turn := must(t)(plain.AbleToAccept(ctx, b, 1)), reserve(t, plain, b, 1).State
				if able.Accepted != free || turn.Accepted != free {
					t.Errorf("%v after the call a unit fits: %v, and has a turn: %v",
						clock.Now().Sub(start), able.Accepted, turn.Accepted)
				}
				if free {
					return
				}
			}
		})
	}
}

// reserve returns the reservation of n units through a Shaper over l.
func reserve(t *testing.T, l *brim.Limiter, b brim.Bucket, n float64) *brim.Reservation {
	t.Helper()
	sh, err := brim.NewShaper(l, nil)
	noError(t, err)
	r, err := sh.Reserve(t.Context(), b, n)
	noError(t, err)
	return r
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
	ctx, b := t.Context(), tens.For("k")
	for _, o := range []*brim.Options{nil, {Prefix: "app:"}} {
		plain, _, clock := open(t, o)
		l := plain.WithPenalty(time.Hour) // which has no part in a block
		must(t)(l.TryFillup(ctx, b, 8))
		must(t)(l.Hold(ctx, b, 1))
		until := start.Add(time.Minute)
		if st := must(t)(l.Block(ctx, b.Key, time.Minute)); !st.BlockedUntil.Equal(until) || st.Level != 8 || st.Held != 1 {
			t.Errorf("Block: %+v; want a block until %v, and the level and the held units as before", st, until)
		}
		if st := must(t)(l.AbleToAccept(ctx, b, 1)); st.Accepted || st.RetryAfter != time.Minute {
			t.Errorf("AbleToAccept during the block: %+v; want a wait of a minute", st)
		}
		if st := must(t)(l.Block(ctx, b.Key, time.Second)); !st.BlockedUntil.Equal(until) {
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
		if st := must(t)(l.Block(ctx, "new", brim.UntilEmpty)); !st.BlockedUntil.IsZero() {
			t.Errorf("Block of an empty bucket until it is empty: %+v; want no block", st)
		}
		if st := must(t)(l.Unblock(ctx, "none")); !st.BlockedUntil.IsZero() || st.Capacity != 0 {
			t.Errorf("Unblock of no bucket: %+v", st)
		}
		if got := list(t, l, ""); len(got) != 1 || got[0] != "k 9/10" {
			t.Errorf("the store has %q; want k alone", got)
		}
		for _, d := range []time.Duration{0, time.Nanosecond, -time.Second} {
			if _, err := l.Block(ctx, b.Key, d); !errors.Is(err, brim.ErrInvalidLimit) {
				t.Errorf("Block for %v: %v; want ErrInvalidLimit", d, err)
			}
		}
	}
}

// TestWrap puts a store of memory before a store that fails: the Limiter keeps its prefix and
// penalty.
func TestWrap(t *testing.T) {
	errWrap := errors.New("no")
	lim := brim.New(&broken{err: brim.ErrUnavailable}, &brim.Options{Prefix: "app:"}).WithPenalty(time.Minute)
	if _, err := lim.Wrap(func(store.Store) (store.Store, error) { return nil, errWrap }); !errors.Is(err, errWrap) {
		t.Errorf("%v, want the error of the function", err)
	}
	s := memory.New(nil)
	wrapped, err := lim.Wrap(func(store.Store) (store.Store, error) { return s, nil })
	if err != nil {
		t.Fatal(err)
	}
	if st, err := wrapped.TryFillup(t.Context(), tens.For("k"), 11); err != nil || st.BlockedUntil.IsZero() {
		t.Errorf("%v, %v; want a penalty", st, err)
	}
	if states, err := s.Read(t.Context(), tens.For("@4:app:k")); err != nil || states[0].BlockedUntil.IsZero() {
		t.Errorf("%v, %v; want the block under the prefix", states, err)
	}
	if _, err := lim.State(t.Context(), tens.For("k")); !errors.Is(err, brim.ErrUnavailable) {
		t.Errorf("%v; want the first Limiter as it was", err)
	}
	if _, err := (&brim.Limiter{}).Wrap(func(s store.Store) (store.Store, error) { return s, nil }); err != nil {
		t.Errorf("a zero Limiter: %v", err)
	}
}
