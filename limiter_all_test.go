package brim_test

import (
	"errors"
	"testing"
	"time"

	"github.com/brimgo/brim"
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
