package simulate_test

import (
	"errors"
	"io"
	"testing"
	"time"

	"github.com/brimgo/brim/cmd/brim/internal/simulate"
)

func callers(t testing.TB, p simulate.Pattern) *simulate.Callers {
	t.Helper()
	c, err := simulate.NewCallers(p)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestShapes(t *testing.T) {
	for _, tc := range []struct {
		name, why string
		pattern   simulate.Pattern
		want      []time.Duration
	}{
		{
			"constant", "the first arrives at once, and none at the end",
			simulate.Pattern{Rate: 4, Duration: time.Second},
			[]time.Duration{0, 250e6, 500e6, 750e6},
		},
		{
			"thirds", "the times are whole microseconds and do not drift",
			simulate.Pattern{Rate: 3, Duration: 1001 * time.Millisecond},
			[]time.Duration{0, 333333e3, 666666e3, 1e9},
		},
		{
			"bursts", "a burst comes every Burst/Rate seconds",
			simulate.Pattern{Shape: simulate.Bursts, Rate: 2, Burst: 3, Duration: 2 * time.Second},
			[]time.Duration{0, 0, 0, 1500e6, 1500e6, 1500e6},
		},
	} {
		c := callers(t, tc.pattern)
		for i, want := range tc.want {
			if a, err := c.Next(); err != nil || a.Time-simulate.Start.UnixMicro() != want.Microseconds() {
				t.Errorf("%s: %s: arrival %d is at %d us after the start, %v; want %v", tc.name, tc.why, i,
					a.Time-simulate.Start.UnixMicro(), err, want)
			}
		}
		if _, err := c.Next(); err != io.EOF {
			t.Errorf("%s: %v after the last arrival; want io.EOF", tc.name, err)
		}
	}
}

func TestPoisson(t *testing.T) {
	p := simulate.Pattern{Shape: simulate.Poisson, Rate: 1000, Duration: 100 * time.Second, Keys: 7, Seed: 3}
	c, again := callers(t, p), callers(t, p)
	keys := map[string]bool{}
	var gaps []float64
	last, n := simulate.Start.UnixMicro(), 0
	for {
		a, err := c.Next()
		if b, errB := again.Next(); a != b || !errors.Is(err, errB) {
			t.Fatalf("the same pattern gives %+v and %+v", a, b)
		}
		if err == io.EOF {
			break
		}
		if a.Time < last {
			t.Fatalf("arrival %d comes before the one before", n)
		}
		gaps = append(gaps, float64(a.Time-last)/1e6)
		keys[a.Key], last, n = true, a.Time, n+1
	}
	// 100,000 arrivals have a standard deviation of 316. The seed is fixed.
	if n < 98_500 || n > 101_500 || len(keys) != 7 {
		t.Errorf("%d arrivals from %d keys; want about 100,000 from 7", n, len(keys))
	}
	long := 0
	for _, g := range gaps {
		if g > 0.001 {
			long++
		}
	}
	if share := float64(long) / float64(n); share < 0.36 || share > 0.376 { // 1/e
		t.Errorf("%.3f of the gaps are longer than the mean; want 0.368", share)
	}
}

// run runs a pattern through a limit.
func run(t testing.TB, p simulate.Pattern, l simulate.Limit) simulate.CallerStats {
	t.Helper()
	c := callers(t, p)
	if _, err := simulate.Run(t.Context(), c, simulate.Options{Limits: []simulate.Limit{l}}); err != nil {
		t.Fatal(err)
	}
	return c.Stats()
}

// A caller is too late if its wait, in a queue or between attempts, is longer than the timeout. A
// caller goes through at its turn.
func TestTooLateAndThrough(t *testing.T) {
	burst := simulate.Pattern{Shape: simulate.Bursts, Rate: 20, Burst: 20, Duration: time.Second}
	limit := simulate.Over(10, 5*time.Second) // two units leak per second
	queue := limit
	queue.Use.Queue = true
	again := burst
	again.Attempts, again.RetryEvery = 3, time.Second
	twice := burst
	twice.Keys = 2
	sparse := simulate.Pattern{Shape: simulate.Listed, List: []simulate.Timed{{At: 0, Cost: 1}, {At: 5900e6, Cost: 8}, {At: 6100e6, Cost: 1}}}
	for name, tc := range map[string]struct {
		pattern                  simulate.Pattern
		limit                    simulate.Limit
		timeout                  time.Duration
		served, tooLate, through int64
	}{
		"no timeout":                 {burst, queue, 0, 10, 0, 2},
		"every turn in time":         {burst, queue, 4500 * time.Millisecond, 10, 0, 2},
		"one turn too late":          {burst, queue, 4499 * time.Millisecond, 10, 1, 2},
		"nearly all too late":        {burst, queue, time.Microsecond, 10, 9, 2},
		"two queues":                 {twice, queue, 4 * time.Second, 20, 2, 4},
		"at once":                    {burst, limit, time.Microsecond, 10, 0, 10},
		"at later attempts":          {again, limit, time.Second, 14, 2, 10},
		"turns after a pause":        {sparse, queue, time.Second, 3, 1, 1},
		"at later attempts, in time": {again, limit, 2 * time.Second, 14, 0, 10},
	} {
		tc.pattern.Timeout = tc.timeout
		s := run(t, tc.pattern, tc.limit)
		if s.Served != tc.served || s.TooLate != tc.tooLate || s.Through != tc.through {
			t.Errorf("%s: %+v; want %d served, %d of them too late, at most %d in a second", name, s, tc.served, tc.tooLate, tc.through)
		}
	}
	never := burst
	never.Attempts, never.Cost = 1000, 11
	if s := run(t, never, limit); s.Attempts != 20 || s.GaveUp != 20 {
		t.Errorf("a cost above the capacity: %+v; want that nobody comes back", s)
	}
}
