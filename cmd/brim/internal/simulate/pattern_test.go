package simulate_test

import (
	"errors"
	"io"
	"strings"
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
func run(t testing.TB, p simulate.Pattern, l simulate.Limit) (simulate.CallerStats, *simulate.Report) {
	t.Helper()
	c := callers(t, p)
	rep, err := simulate.Run(t.Context(), c, simulate.Options{Limits: []simulate.Limit{l}})
	if err != nil {
		t.Fatal(err)
	}
	return c.Stats(), rep
}

func TestRetries(t *testing.T) {
	burst := simulate.Pattern{Shape: simulate.Bursts, Rate: 100, Burst: 100, Duration: time.Second, Seed: 1}
	limit := simulate.Over(10, 10*time.Second)
	none, rep := run(t, burst, limit)
	if want := (simulate.CallerStats{Callers: 100, Attempts: 100, Served: 10, GaveUp: 90, Busiest: 100, Through: 10}); none != want {
		t.Errorf("without retries: %+v; want %+v", none, want)
	}
	if rep.Requests != 100 || rep.Outcomes[0].Accepted != 10 {
		t.Errorf("without retries: %+v", rep)
	}

	storm := burst
	storm.Attempts, storm.RetryEvery = 4, time.Second
	s, rep := run(t, storm, limit)
	// One unit leaks within each second, so each wave serves one caller.
	want := simulate.CallerStats{
		Callers: 100, Attempts: 100 + 90 + 89 + 88, Served: 13, GaveUp: 87, Busiest: 100, Through: 10,
		Longest: 3 * time.Second, Total: 6 * time.Second, Last: 3 * time.Second,
	}
	if s != want {
		t.Errorf("a storm: %+v; want %+v", s, want)
	}
	if rep.Requests != s.Attempts || rep.Outcomes[0].Accepted != s.Served {
		t.Errorf("the report %+v differs from the callers' counts %+v", rep, s)
	}

	jittered := storm
	jittered.Jitter = 1
	j, _ := run(t, jittered, limit)
	if j.Callers != 100 || j.Served+j.GaveUp != 100 {
		t.Errorf("with jitter: %+v; want 100 callers, each of them served or not", j)
	}
	if w := waves(t, storm, limit)[10]; w != 90 {
		t.Errorf("without jitter %d callers come back within a tenth of a second; want 90", w)
	}
	if w := waves(t, jittered, limit)[10]; w > 20 {
		t.Errorf("with jitter %d callers come back within a tenth of a second; want a tenth of them", w)
	}

	// A caller who waits for RetryAfter comes when one unit fits. All refused callers come then.
	after := burst
	after.Attempts = 3
	a, _ := run(t, after, limit)
	if a.Served != 12 || a.Longest != 2*time.Second {
		t.Errorf("callers who wait for RetryAfter: %+v; want 12 served, the last after 2 s", a)
	}

	never := burst
	never.Attempts, never.Cost = 1000, 11
	if n, _ := run(t, never, limit); n.Attempts != 100 || n.GaveUp != 100 {
		t.Errorf("a cost above the capacity: %+v; want that nobody comes back", n)
	}
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
		s, _ := run(t, tc.pattern, tc.limit)
		if s.Served != tc.served || s.TooLate != tc.tooLate || s.Through != tc.through {
			t.Errorf("%s: %+v; want %d served, %d of them too late, at most %d in a second", name, s, tc.served, tc.tooLate, tc.through)
		}
	}
}

// waves returns the number of attempts by tenth of a second.
func waves(t *testing.T, p simulate.Pattern, l simulate.Limit) map[int]int {
	t.Helper()
	n := map[int]int{}
	_, err := simulate.Run(t.Context(), callers(t, p), simulate.Options{
		Limits: []simulate.Limit{l},
		Watch:  func(e simulate.Event) { n[int(10*e.At.Sub(simulate.Start).Seconds())]++ },
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestPatternsAreChecked(t *testing.T) {
	good := simulate.Pattern{Rate: 1, Duration: time.Second}
	for says, change := range map[string]func(*simulate.Pattern){
		"pattern is":          func(p *simulate.Pattern) { p.Shape = "waves" },
		"rate is":             func(p *simulate.Pattern) { p.Rate = 0 },
		"duration is":         func(p *simulate.Pattern) { p.Duration = 0 },
		"rate times duration": func(p *simulate.Pattern) { p.Rate, p.Duration = 1e6, time.Hour },
		"burst is":            func(p *simulate.Pattern) { p.Burst = 2 },
		"keys":                func(p *simulate.Pattern) { p.Keys = -1 },
		"cost is":             func(p *simulate.Pattern) { p.Cost = -1 },
		"attempts":            func(p *simulate.Pattern) { p.Attempts = 1001 },
		"retry-every is":      func(p *simulate.Pattern) { p.RetryEvery = -1 },
		"jitter":              func(p *simulate.Pattern) { p.Jitter = -1 },
		"timeout is":          func(p *simulate.Pattern) { p.Timeout = -1 },
	} {
		p := good
		change(&p)
		if _, err := simulate.NewCallers(p); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%+v: got %v; want an error with %q", p, err, says)
		}
	}
	two := []simulate.Limit{simulate.Over(1, time.Second), simulate.Over(2, time.Second)}
	if _, err := simulate.Run(t.Context(), callers(t, good), simulate.Options{Limits: two}); err == nil {
		t.Error("one group of callers got the answers of two limits")
	}
}
