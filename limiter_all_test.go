package brim_test

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/brimtest"
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

// exact is a bucket that rounds nothing: it counts 64ths of a unit on a clock of 64ths of a
// second, and its leak rate is whole.
type exact struct {
	level, capacity, rate int64
	at                    int64
}

func (b *exact) leak(now int64) {
	b.level = max(0, b.level-b.rate*(now-b.at))
	b.at = now
}

// TestHierarchy fills a user's, a tenant's and the service's bucket at once, in random amounts,
// and compares them with three exact buckets. A refusal by one bucket must change none of the
// three, and the states must tell which bucket refused.
func TestHierarchy(t *testing.T) {
	const cases, tick = 1000, time.Second / 64
	onEachBackend(t, func(t *testing.T, s store.Store, clock *brimtest.Clock) {
		rng := rand.New(rand.NewPCG(3, 3))
		lim := brim.New(s, nil)
		limits := []brim.Limit{{Capacity: 8, LeakRate: 2}, {Capacity: 20, LeakRate: 2}, {Capacity: 40, LeakRate: 3}}
		keys := [][]string{{"user:1", "user:2", "user:3"}, {"tenant:1", "tenant:2"}, {"all"}}
		model := map[string]*exact{}
		for level, names := range keys {
			for _, key := range names {
				model[key] = &exact{capacity: int64(64 * limits[level].Capacity), rate: int64(limits[level].LeakRate)}
			}
		}
		now, refusedBy := int64(0), [3]int{}
		for range cases {
			if rng.IntN(3) > 0 {
				ticks := rng.Int64N(64)
				now += ticks
				clock.Advance(time.Duration(ticks) * tick)
			}
			n := 1 + rng.Int64N(64*6) // up to 6 units
			var fills []brim.Fill
			for level, names := range keys {
				b := limits[level].For(names[rng.IntN(len(names))])
				fills = append(fills, brim.Fill{Bucket: b, Amount: float64(n) / 64})
			}
			rng.Shuffle(len(fills), func(i, j int) { fills[i], fills[j] = fills[j], fills[i] })
			fits := true
			for _, f := range fills {
				b := model[f.Bucket.Key]
				b.leak(now)
				fits = fits && b.level+n <= b.capacity
			}
			states, err := lim.TryFillupAll(t.Context(), fills...)
			if err != nil {
				t.Fatal(err)
			}
			for i, f := range fills {
				b := model[f.Bucket.Key]
				refuses := b.level+n > b.capacity
				if fits {
					b.level += n
				}
				st := states[i]
				if st.Accepted != fits || st.Level != float64(b.level)/64 || st.RetryAfter > 0 != refuses {
					t.Fatalf("%s: accepted %v, level %v, wait %v; want %v, %v, and a wait: %v",
						f.Bucket.Key, st.Accepted, st.Level, st.RetryAfter, fits, float64(b.level)/64, refuses)
				}
				if refuses {
					refusedBy[int(f.Bucket.Capacity)/20]++
				}
			}
		}
		for key, b := range model {
			st, err := lim.StateOf(t.Context(), key)
			b.leak(now)
			if err != nil || st.Level != float64(b.level)/64 {
				t.Errorf("%s: level %v, %v; want %v", key, st.Level, err, float64(b.level)/64)
			}
		}
		if refusedBy[0] == 0 || refusedBy[1] == 0 || refusedBy[2] == 0 {
			t.Errorf("refusals by user, tenant and service: %v; want some by each", refusedBy)
		}
	})
}
