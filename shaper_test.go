package brim_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/internal/seed"
	"github.com/brimgo/brim/local"
	"github.com/brimgo/brim/store"
)

// shaper returns a Shaper over s with the given MaxWait.
func shaper(t testing.TB, s store.Store, maxWait time.Duration) *brim.Shaper {
	t.Helper()
	sh, err := brim.NewShaper(brim.New(s, nil), &brim.ShaperOptions{MaxWait: maxWait})
	noError(t, err)
	return sh
}

func TestReserve(t *testing.T) {
	for _, test := range []struct {
		name, why string
		limit     brim.Limit
		maxWait   time.Duration
		burst     float64
		held      float64
		before    float64 // units in the queue
		n         float64
		accepted  bool
		wait      time.Duration // until the turn, or RetryAfter of the refusal
	}{
		{name: "empty", why: "in an empty bucket the turn comes at once", limit: tens, n: 10, accepted: true},
		{
			name: "behind others", why: "all units in front leak first", limit: tens, before: 4, n: 6,
			accepted: true, wait: 4 * time.Second,
		},
		{
			name: "no room", why: "the amount fits when enough has leaked", limit: tens, before: 4, n: 7,
			wait: time.Second,
		},
		{name: "larger than the bucket", why: "no wait helps", limit: tens, n: 11, wait: brim.Never},
		{
			name: "within MaxWait", why: "a turn at the very end of MaxWait is in time", limit: tens,
			maxWait: 4 * time.Second,
			before:  4, n: 6, accepted: true, wait: 4 * time.Second,
		},
		{
			name: "after MaxWait", why: "the units in front take longer than MaxWait", limit: tens,
			maxWait: 4 * time.Second, before: 4.5,
			n: 1, wait: 500 * time.Millisecond,
		},
		{
			name: "a large first amount within MaxWait", why: "an amount does not wait for its own units",
			limit:   tens,
			maxWait: time.Second, n: 10, accepted: true,
		},
		{
			name: "MaxWait beyond the capacity", why: "the capacity bounds the wait too", limit: tens,
			maxWait: time.Hour,
			before:  9, n: 2, wait: time.Second,
		},
		{name: "within Burst", why: "a burst goes ahead", limit: tens, burst: 6, before: 4, n: 2, accepted: true},
		{
			name: "beyond Burst", why: "what is above the burst leaks first", limit: tens, burst: 6, before: 4, n: 5,
			accepted: true, wait: 3 * time.Second,
		},
		{
			name: "larger than Burst", why: "an amount does not wait for its own units", limit: tens, burst: 2, before: 4,
			n: 5, accepted: true, wait: 4 * time.Second,
		},
		{
			name: "Burst beside held units", why: "they take up room in the burst", limit: tens, burst: 6, held: 3, before: 2,
			n: 2, accepted: true, wait: time.Second,
		},
		{
			name: "Burst within MaxWait", why: "the burst takes nothing from the wait", limit: tens, burst: 4, maxWait: 3 * time.Second,
			before: 5, n: 2, accepted: true, wait: 3 * time.Second,
		},
		{
			name: "Burst after MaxWait", why: "the units above the burst take longer than MaxWait", limit: tens, burst: 4,
			maxWait: 3 * time.Second, before: 6, n: 2, wait: time.Second,
		},
		{name: "a Burst above the capacity", why: "the capacity bounds it", limit: tens, burst: math.Inf(1), before: 4, n: 6, accepted: true},
		{name: "zero", why: "zero units take no time and no place", limit: tens, before: 9, accepted: true},
		{
			name: "decimal fractions", why: "rounding must not refuse a turn at the very end of MaxWait",
			limit: brim.Limit{Capacity: 10, LeakRate: 0.3}, maxWait: 2 * time.Second, before: 0.6, n: 0.1,
			accepted: true, wait: 2 * time.Second,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			l, _, _ := open(t, nil)
			if test.before > 0 {
				must(t)(l.TryFillup(t.Context(), test.limit.For("k"), test.before))
			}
			must(t)(l.Hold(t.Context(), test.limit.For("k"), test.held))
			turns, err := brim.NewShaper(l, &brim.ShaperOptions{MaxWait: test.maxWait, Burst: test.burst})
			noError(t, err)
			r, err := turns.Reserve(t.Context(), test.limit.For("k"), test.n)
			noError(t, err)
			wait := r.Turn().Sub(r.State.At)
			if !test.accepted {
				wait = r.State.RetryAfter
			}
			if r.State.Accepted != test.accepted || wait != test.wait {
				t.Errorf("accepted %v, wait %v; want %v, %v: %s",
					r.State.Accepted, wait, test.accepted, test.wait, test.why)
			}
			want := test.before
			if test.accepted {
				want += test.n
			}
			if st := must(t)(l.State(t.Context(), test.limit.For("k"))); math.Abs(st.Level-want) > 1e-15 {
				t.Errorf("level %v; want %v: a refusal puts nothing in", st.Level, want)
			}
			if given, err := r.Cancel(t.Context()); given != (test.accepted && test.wait > 0) || err != nil {
				t.Errorf("Cancel took it back: %v, %v; want %v", given, err, test.accepted && test.wait > 0)
			}
		})
	}
}

func TestShaperInvalid(t *testing.T) {
	for _, o := range []brim.ShaperOptions{{MaxWait: -1}, {Burst: -1}, {Burst: math.NaN()}} {
		if _, err := brim.NewShaper(nil, &o); err == nil {
			t.Errorf("NewShaper accepts %+v", o)
		}
	}
	l, s, _ := open(t, nil)
	sh := shaper(t, s, 0)
	bursty, err := brim.NewShaper(l, &brim.ShaperOptions{MaxWait: time.Second, Burst: math.Inf(1)})
	noError(t, err)
	ctx := t.Context()
	ended, cancel := context.WithCancel(ctx)
	cancel()
	for _, test := range []struct {
		name string
		sh   *brim.Shaper
		ctx  context.Context
		b    brim.Bucket
		n    float64
		want error
	}{
		{"no leak", sh, ctx, brim.Limit{Capacity: 1}.For("k"), 1, brim.ErrInvalidLimit},
		{"no limit", sh, ctx, brim.Bucket{Key: "k"}, 1, brim.ErrInvalidLimit},
		{"no key", sh, ctx, tens.For(""), 1, brim.ErrInvalidKey},
		{"negative", sh, ctx, tens.For("k"), -1, brim.ErrInvalidAmount},
		{"NaN", sh, ctx, tens.For("k"), math.NaN(), brim.ErrInvalidAmount},
		{"NaN with MaxWait", shaper(t, s, time.Second), ctx, tens.For("k"), math.NaN(), brim.ErrInvalidAmount},
		{"NaN with Burst", bursty, ctx, tens.For("k"), math.NaN(), brim.ErrInvalidAmount},
		{"infinite with MaxWait", shaper(t, s, time.Second), ctx, tens.For("k"), math.Inf(1), brim.ErrInvalidAmount},
		{"cancelled context", sh, ended, tens.For("k"), 1, context.Canceled},
		{"no store", shaper(t, nil, time.Second), ctx, tens.For("k"), 1, brim.ErrClosed},
	} {
		t.Run(test.name, func(t *testing.T) {
			if _, err := test.sh.Reserve(test.ctx, test.b, test.n); !errors.Is(err, test.want) {
				t.Errorf("Reserve: %v; want %v", err, test.want)
			}
			if _, err := test.sh.Wait(test.ctx, test.b, test.n); !errors.Is(err, test.want) {
				t.Errorf("Wait: %v; want %v", err, test.want)
			}
		})
	}
	if st := must(t)(l.State(ctx, tens.For("k"))); st.Level != 0 {
		t.Errorf("level %v after invalid calls; want 0", st.Level)
	}
}

// TestShaperOverLease gives turns in a bucket that is busy enough for allotments. A turn comes from
// the store, because an allotment has none.
func TestShaperOverLease(t *testing.T) {
	_, s, clock := open(t, nil)
	leased, err := local.Leases(s, &local.LeasesOptions{Clock: clock.Now})
	noError(t, err)
	b := brim.Limit{Capacity: 100_000, LeakRate: 1000}.For("busy")
	served := 0
	for range 1000 {
		clock.Advance(time.Millisecond)
		if must(t)(brim.New(leased, nil).TryFillup(t.Context(), b, 1)).Estimate {
			served++
		}
	}
	if served == 0 {
		t.Fatal("no call was served from an allotment, so nothing is shown")
	}
	sh := shaper(t, leased, 0)
	var last time.Time
	for i := range 100 {
		r, err := sh.Reserve(t.Context(), b, 10)
		if err != nil || !r.State.Accepted || r.State.Estimate {
			t.Fatalf("%+v, %v; want a reservation in the store", r, err)
		}
		if gap := r.Turn().Sub(last); i > 0 && gap != 10*time.Millisecond {
			t.Errorf("turn %d comes %v after the one before; want 10 ms", i, gap)
		}
		last = r.Turn()
	}
}

func TestCheckTimeout(t *testing.T) {
	for _, test := range []struct {
		name    string
		limit   brim.Limit
		maxWait time.Duration
		timeout time.Duration
		text    string // in the error; "" for no error
	}{
		{"shallow", brim.Smooth(5, time.Second), 0, time.Second, ""},
		{
			"deep", brim.Smooth(5, 10*time.Second), 0, 2 * time.Second,
			"up to 10s long and its callers give up after 2s; use a capacity of at most 10",
		},
		{"deep, with MaxWait", brim.Smooth(5, 10*time.Second), time.Second, 2 * time.Second, ""},
		{"MaxWait too long", brim.Smooth(5, 10*time.Second), 3 * time.Second, 2 * time.Second, "up to 3s long"},
		{"no leak", brim.Limit{Capacity: 5}, 0, time.Hour, "leak rate is 0"},
		{"no limit", brim.Limit{}, 0, time.Hour, "the limit is not set"},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := shaper(t, nil, test.maxWait).CheckTimeout(test.limit, test.timeout)
			switch {
			case test.text == "" && err != nil:
				t.Errorf("got %v; want no error", err)
			case test.text != "" && (!errors.Is(err, brim.ErrInvalidLimit) || !strings.Contains(err.Error(), test.text)):
				t.Errorf("got %v; want %q", err, test.text)
			}
		})
	}
}

// Smooth and CheckTimeout are one rule: a queue that Smooth makes for a timeout passes the check
// for that timeout, the next larger capacity does not, and the capacity that the error suggests
// does.
func TestSmoothPassesCheckTimeout(t *testing.T) {
	s, err := seed.New()
	noError(t, err)
	random := rand.New(rand.NewPCG(s, 19))
	exp := func(least, most float64) float64 { return least * math.Exp(random.Float64()*math.Log(most/least)) }
	sh := shaper(t, nil, 0)
	for range 50_000 {
		rate, timeout := exp(1e-6, 1e6), time.Duration(exp(1, float64(24*time.Hour)))
		if random.IntN(2) == 0 {
			rate, timeout = math.Ceil(rate), max(time.Millisecond, timeout.Round(time.Millisecond))
		}
		limit := brim.Smooth(rate, timeout)
		if err := sh.CheckTimeout(limit, timeout); err != nil {
			t.Fatalf("Smooth(%v, %v): %v; want no error (BRIM_SEED=%d)", rate, timeout, err, s)
		}
		whole := max(time.Microsecond, timeout.Round(time.Microsecond))
		if got := brim.Smooth(rate, whole).MaxWait(); got != whole {
			t.Fatalf("MaxWait of Smooth(%v, %v) is %v (BRIM_SEED=%d)", rate, whole, got, s)
		}
		deeper := limit
		deeper.Capacity = math.Nextafter(limit.Capacity, math.Inf(1))
		err := sh.CheckTimeout(deeper, timeout)
		if err == nil {
			t.Fatalf("%+v passes for %v, and Smooth makes %v of it at most (BRIM_SEED=%d)", deeper, timeout, limit.Capacity, s)
		}
		_, text, _ := strings.Cut(err.Error(), "a capacity of at most ")
		text, _, _ = strings.Cut(text, ",")
		suggested := limit
		if suggested.Capacity, err = strconv.ParseFloat(text, 64); err != nil || sh.CheckTimeout(suggested, timeout) != nil {
			t.Fatalf("the suggested capacity %q fails the check, too: %v (BRIM_SEED=%d)", text, err, s)
		}
		if err := shaper(t, nil, timeout).CheckTimeout(deeper, timeout); err != nil {
			t.Fatalf("a MaxWait of the timeout itself: %v; want no error (BRIM_SEED=%d)", err, s)
		}
	}
}

func TestShaperDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sh := shaper(t, inMemory(t), 2*time.Second)
		began := time.Now()
		for i := range 3 {
			noError(t, sh.Do(t.Context(), tens.For("k"), 1, func(context.Context) error { return nil }))
			if took := time.Since(began); took != time.Duration(i)*time.Second {
				t.Errorf("call %d ran after %v; want %d s", i+1, took, i)
			}
		}
		if _, err := sh.Reserve(t.Context(), tens.For("k"), 2); err != nil {
			t.Fatal(err)
		}
		f := func(context.Context) error { t.Error("Do ran the function"); return nil }
		err := sh.Do(t.Context(), tens.For("k"), 1, f)
		if over := (*brim.OverLimitError)(nil); !errors.As(err, &over) || over.RetryAfter != time.Second {
			t.Errorf("got %v; want a refusal with RetryAfter 1s", err)
		}
	})
}
