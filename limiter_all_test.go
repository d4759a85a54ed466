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

func TestTryFillupAll(t *testing.T) {
	ctx := t.Context()
	card, account := tens.For("card"), brim.Limit{Capacity: 100, LeakRate: 2}.For("account")
	sealed := brim.Limit{Capacity: 5}.For("sealed")
	type levels map[string]float64
	for _, test := range []struct {
		name, why string
		fills     []brim.Fill
		accepted  bool
		retry     []time.Duration
		after     levels
	}{
		{
			name: "all fit", why: "each amount goes into its own bucket",
			fills:    []brim.Fill{{Bucket: card, Amount: 3}, {Bucket: account, Amount: 20}},
			accepted: true, retry: []time.Duration{0, 0},
			after: levels{"card": 8, "account": 70, "sealed": 0},
		},
		{
			name: "one refuses", why: "nothing goes in, and only the bucket that refused has a wait",
			fills: []brim.Fill{{Bucket: account, Amount: 20}, {Bucket: card, Amount: 7}},
			retry: []time.Duration{0, 2 * time.Second},
			after: levels{"card": 5, "account": 50, "sealed": 0},
		},
		{
			name: "several refuse", why: "each bucket that refused has its own wait",
			fills: []brim.Fill{{Bucket: account, Amount: 60}, {Bucket: card, Amount: 7}, {Bucket: sealed, Amount: 6}},
			retry: []time.Duration{5 * time.Second, 2 * time.Second, brim.Never},
			after: levels{"card": 5, "account": 50, "sealed": 0},
		},
		{
			name: "amounts for one key add up and fit", why: "a basket of two items is charged for both",
			fills:    []brim.Fill{{Bucket: card, Amount: 2}, {Bucket: account, Amount: 1}, {Bucket: card, Amount: 3}},
			accepted: true, retry: []time.Duration{0, 0, 0},
			after: levels{"card": 10, "account": 51, "sealed": 0},
		},
		{
			name: "amounts for one key add up and do not fit", why: "each amount fits alone, their sum does not",
			fills: []brim.Fill{{Bucket: card, Amount: 4}, {Bucket: account, Amount: 1}, {Bucket: card, Amount: 4}},
			retry: []time.Duration{3 * time.Second, 0, 3 * time.Second},
			after: levels{"card": 5, "account": 50, "sealed": 0},
		},
		{
			name: "an amount of zero", why: "zero always fits and refuses nothing",
			fills:    []brim.Fill{{Bucket: sealed, Amount: 0}, {Bucket: card, Amount: 1}},
			accepted: true, retry: []time.Duration{0, 0},
			after: levels{"card": 6, "account": 50, "sealed": 0},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, o := range []*brim.Options{nil, {Prefix: "app:"}} {
				l, _, _ := open(t, o)
				must(t)(l.TryFillup(ctx, card, 5))
				must(t)(l.TryFillup(ctx, account, 50))
				states, err := l.TryFillupAll(ctx, test.fills...)
				if err != nil || len(states) != len(test.fills) {
					t.Fatalf("%d states, %v; want one per fill", len(states), err)
				}
				for i, st := range states {
					f := test.fills[i]
					if st.Accepted != test.accepted || st.RetryAfter != test.retry[i] {
						t.Errorf("fill %d: accepted %v, retry after %v; want %v, %v: %s",
							i, st.Accepted, st.RetryAfter, test.accepted, test.retry[i], test.why)
					}
					if st.Level != test.after[f.Bucket.Key] || st.Capacity != f.Bucket.Capacity {
						t.Errorf("fill %d: %+v; want level %v of its own bucket: %s",
							i, st, test.after[f.Bucket.Key], test.why)
					}
				}
				for _, b := range []brim.Bucket{card, account, sealed} {
					if st := must(t)(l.State(ctx, b)); st.Level != test.after[b.Key] {
						t.Errorf("%s holds %v; want %v: %s", b.Key, st.Level, test.after[b.Key], test.why)
					}
				}
			}
		})
	}
}

func TestTryFillupAllInvalid(t *testing.T) {
	ctx := t.Context()
	s := &broken{err: errors.New("the store was called")}
	l := brim.New(s, nil)
	wider := brim.Limit{Capacity: 20, LeakRate: 1}
	_, err := l.TryFillupAll(ctx, brim.Fill{Bucket: tens.For("k"), Amount: 1}, brim.Fill{Bucket: wider.For("k"), Amount: 1})
	if !errors.Is(err, brim.ErrInvalidLimit) {
		t.Errorf("one key with two limits = %v; want ErrInvalidLimit, because neither limit can decide", err)
	}
	vast := brim.Limit{Capacity: 1 << 53}
	full := brim.Fill{Bucket: vast.For("k"), Amount: 1 << 53}
	_, err = l.TryFillupAll(ctx, full, full)
	if !errors.Is(err, brim.ErrInvalidAmount) {
		t.Errorf("amounts that add up to more than 2^53 = %v; want ErrInvalidAmount", err)
	}
	if states, err := l.TryFillupAll(ctx); states != nil || err != nil {
		t.Errorf("no fills = %v, %v; want nil, nil", states, err)
	}
	if s.calls != 0 {
		t.Errorf("the store was called %d times; want 0", s.calls)
	}
}

// scripted counts the fills of a store, and fails those in mode IfFits if err is set.
type scripted struct {
	store.Store
	fills int
	err   error
}

func (s *scripted) Fill(ctx context.Context, op store.Op) (store.State, error) {
	s.fills++
	if s.err != nil && op.Mode == store.IfFits {
		return store.State{}, s.err
	}
	return s.Store.Fill(ctx, op)
}

// TestAskOnlyAppliesRate asks twice about a bucket that is full under 10 an hour, by a limit of 10
// a minute.
func TestAskOnlyAppliesRate(t *testing.T) {
	const hour, minute = 10.0 / 3600, 10.0 / 60
	asked := func(limit brim.Limit, n float64) brim.Fill {
		return brim.Fill{Bucket: limit.For("k"), Amount: n, AskOnly: true}
	}
	faster := asked(brim.Limit{Capacity: 10, LeakRate: minute}, 5)
	beside := brim.Fill{Bucket: tens.For("other"), Amount: 1}
	all := func(fills ...brim.Fill) func(ctx context.Context, l *brim.Limiter) ([]brim.State, error) {
		return func(ctx context.Context, l *brim.Limiter) ([]brim.State, error) { return l.TryFillupAll(ctx, fills...) }
	}
	for _, test := range []struct {
		name, why string
		blocked   bool
		shadow    bool
		err       error
		ask       func(ctx context.Context, l *brim.Limiter) ([]brim.State, error)
		rates     [2]float64       // of the answers
		retry     [2]time.Duration // a second apart
		fills     int              // that write the rate, or try to
	}{
		{
			name: "alone", why: "whoever enforces a limit by asking has the new rate from the first refusal on",
			ask: all(faster), rates: [2]float64{minute, minute}, retry: [2]time.Duration{30 * time.Second, 29 * time.Second}, fills: 3,
		},
		{
			name: "beside a fill", why: "the same in a list",
			ask: all(faster, beside), rates: [2]float64{minute, minute}, retry: [2]time.Duration{30 * time.Second, 29 * time.Second}, fills: 1,
		},
		{
			name: "beside a fill of its bucket", why: "the refusal of the fill has written the rate",
			ask:   all(faster, brim.Fill{Bucket: faster.Bucket, Amount: 1}),
			rates: [2]float64{minute, minute}, retry: [2]time.Duration{36 * time.Second, 35 * time.Second},
		},
		{
			name: "a question alone", why: "AbleToAccept writes nothing",
			ask: func(ctx context.Context, l *brim.Limiter) ([]brim.State, error) {
				return one(l.AbleToAccept(ctx, faster.Bucket, 5))
			},
			rates: [2]float64{hour, hour}, retry: [2]time.Duration{1800 * time.Second, 1799 * time.Second}, fills: 2,
		},
		{
			name: "a failure", why: "the answer to the question is right, and the next caller tries again", err: brim.ErrUnavailable,
			ask: all(faster, beside), rates: [2]float64{hour, hour}, retry: [2]time.Duration{1800 * time.Second, 1799 * time.Second}, fills: 2,
		},
		{
			name: "blocked", why: "a refusal under a block writes no rate", blocked: true,
			ask: all(faster, beside), rates: [2]float64{hour, hour}, retry: [2]time.Duration{1800 * time.Second, 1799 * time.Second},
		},
		{
			name: "more than the capacity", why: "a refusal for ever writes no rate",
			ask:   all(faster, asked(faster.Bucket.Limit, 6), beside),
			rates: [2]float64{hour, hour}, retry: [2]time.Duration{brim.Never, brim.Never},
		},
		{
			name: "tried", why: "a limit of Shadow has no effect", shadow: true,
			ask: all(faster), rates: [2]float64{hour, hour}, retry: [2]time.Duration{1800 * time.Second, 1799 * time.Second}, fills: 2,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			clock := newClock()
			s := &scripted{Store: memory.New(&memory.Options{Clock: clock.Now}), err: test.err}
			o := &brim.Options{}
			if test.shadow {
				o.Shadow = func(context.Context, brim.Fill, error) {}
			}
			l := brim.New(s, o)
			must(t)(l.Fillup(t.Context(), brim.Limit{Capacity: 10, LeakRate: hour}.For("k"), 10))
			if test.blocked {
				must(t)(l.Block(t.Context(), "k", time.Minute))
			}
			s.fills = 0
			for i := range 2 {
				states, err := test.ask(t.Context(), l)
				if err != nil || states[0].Accepted != test.shadow || states[0].LeakRate != test.rates[i] ||
					states[0].RetryAfter.Round(time.Millisecond) != test.retry[i].Round(time.Millisecond) {
					t.Errorf("answer %d: %+v, %v; want rate %v and %v: %s", i, states, err, test.rates[i], test.retry[i], test.why)
				}
				clock.Advance(time.Second)
			}
			if st := must(t)(l.StateOf(t.Context(), "k")); st.LeakRate != test.rates[1] || s.fills != test.fills {
				t.Errorf("%d fills, and then %+v; want %d, and rate %v: %s", s.fills, st, test.fills, test.rates[1], test.why)
			}
		})
	}
}
