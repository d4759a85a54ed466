package load

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"
)

// one is an order of a single key.
var one = Order{0}

func TestRunOpenKeepsItsRate(t *testing.T) {
	for _, c := range []struct {
		why   string
		burst int
		rate  float64
		calls uint64
	}{
		{"one thread keeps the schedule of all callers", 1, 5000, 250},
		{"each caller keeps a schedule of its own", 64, 5000, 250},
		{"a rate that does not divide the time loses the last part of a call", 1, 70, 3},
	} {
		var calls atomic.Uint64
		o := Options{Callers: 3, For: 50 * time.Millisecond, Order: one, Burst: c.burst}
		o.Decide = func(context.Context, int, bool) (bool, error) { return calls.Add(1)%2 == 0, nil }
		res, err := RunOpen(t.Context(), o, c.rate)
		if err != nil {
			t.Fatal(err)
		}
		if res.Accepted+res.Refused != c.calls || calls.Load() != c.calls || res.Accepted != c.calls/2 {
			t.Errorf("%d accepted and %d refused of %d calls, want %d: %s", res.Accepted, res.Refused, calls.Load(),
				c.calls, c.why)
		}
		if last := time.Duration(float64(c.calls-1) / c.rate * 1e9); res.Elapsed < last {
			t.Errorf("%d calls took %v, and the last is due after %v: %s", c.calls, res.Elapsed, last, c.why)
		}
	}
}

// A closed loop would time one slow answer, and make no calls meanwhile.
func TestRunOpenCountsTheWaitBehindAStall(t *testing.T) {
	for _, burst := range []int{1, 64} {
		var calls atomic.Int64
		const stall = 60 * time.Millisecond
		o := Options{Callers: 1, For: 100 * time.Millisecond, Order: one, Burst: burst}
		o.Decide = func(context.Context, int, bool) (bool, error) {
			if calls.Add(1) == 1 {
				time.Sleep(stall)
			}
			return true, nil
		}
		res, err := RunOpen(t.Context(), o, 1000)
		if err != nil {
			t.Fatal(err)
		}
		// Of the 100 calls, one in each millisecond, 60 were due during the stall.
		if got := res.Took.Quantile(0.55); res.Accepted != 100 || got < 4 {
			t.Errorf("burst %d: %d calls, 45 %% of them longer than %v ms; want those behind the stall to count from "+
				"their due times", burst, res.Accepted, got)
		}
		if got := res.Took.Quantile(0.995); got < 58 {
			t.Errorf("burst %d: the slowest call took %v ms, want about %v", burst, got, stall)
		}
	}
}

func TestRunOpenEnds(t *testing.T) {
	broken := errors.New("broken")
	for _, burst := range []int{1, 64} {
		var calls atomic.Int64
		o := Options{Callers: 2, For: time.Hour, Order: one, Burst: burst}
		o.Decide = func(context.Context, int, bool) (bool, error) {
			if calls.Add(1) == 10 {
				return false, broken
			}
			return true, nil
		}
		if _, err := RunOpen(t.Context(), o, 1e4); !errors.Is(err, broken) {
			t.Errorf("burst %d: got %v, want the error at once", burst, err)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		o.Tolerant = true
		time.AfterFunc(10*time.Millisecond, func() { cancel(broken) })
		if _, err := RunOpen(ctx, o, 1e4); !errors.Is(err, broken) {
			t.Errorf("burst %d: got %v, want the interrupt, although the limiter ignores it", burst, err)
		}
	}
}

// A limiter in memory does not look at its context.
func TestRunEndsALimiterThatIgnoresTheContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(10*time.Millisecond, cancel)
	o := Options{Callers: 2, For: time.Hour, Order: one, Burst: 4}
	o.Decide = func(context.Context, int, bool) (bool, error) { return true, nil }
	if _, err := Run(ctx, o); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the interrupt", err)
	}
}
