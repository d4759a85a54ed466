package simulate_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/brimgo/brim/cmd/brim/internal/simulate"
)

// listed returns the decisions about arrivals of one unit each, at the given milliseconds.
func listed(t *testing.T, l simulate.Limit, use simulate.Use, costs float64, millis ...int) ([]simulate.Event, simulate.CallerStats) {
	t.Helper()
	l.Use = use
	p := simulate.Pattern{Shape: simulate.Listed}
	for _, m := range millis {
		p.List = append(p.List, simulate.Timed{At: time.Duration(m) * time.Millisecond, Cost: costs})
	}
	c := callers(t, p)
	var events []simulate.Event
	_, err := simulate.Run(t.Context(), c, simulate.Options{
		Limits: []simulate.Limit{l}, Watch: func(e simulate.Event) { events = append(events, e) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return events, c.Stats()
}

func TestUseAsQueue(t *testing.T) {
	arrivals := []int{0, 0, 0, 0, 300, 300}
	events, stats := listed(t, simulate.Over(4, 2*time.Second), simulate.Use{Queue: true}, 1, arrivals...)
	var turns []time.Duration
	for _, e := range events {
		if e.Accepted {
			turns = append(turns, e.At.Sub(simulate.Start)+e.Wait)
		}
	}
	if want := []time.Duration{0, 500e6, 1000e6, 1500e6}; !slices.Equal(turns, want) {
		t.Errorf("the turns are %v; want %v", turns, want)
	}
	if stats.Longest != 1500*time.Millisecond || stats.Last != stats.Longest || stats.Total != 3*time.Second || stats.GaveUp != 2 {
		t.Errorf("%+v; want that the last of four callers waits 1.5 s, and two give up", stats)
	}
	events, _ = listed(t, simulate.Over(4, 2*time.Second), simulate.Use{Queue: true, MaxWait: 500 * time.Millisecond}, 1, arrivals...)
	if e := events[2]; e.Accepted || e.RetryAfter != 500*time.Millisecond {
		t.Errorf("the third of four would wait 1 s: %+v; want a refusal for 0.5 s", e)
	}
}

func TestUseFillup(t *testing.T) {
	events, _ := listed(t, simulate.Over(3, 3*time.Second), simulate.Use{Fillup: true}, 2, 0, 500, 4000)
	for i, want := range []simulate.Event{
		{Level: 2, Accepted: true}, {Level: 3, Spilled: 0.5, Full: true}, {Level: 2, Accepted: true},
	} {
		e := events[i]
		if e.Level != want.Level || e.Spilled != want.Spilled || e.Full != want.Full || e.Accepted != want.Accepted {
			t.Errorf("fill %d: %+v; want %+v", i, e, want)
		}
	}
}

func TestUsePenalty(t *testing.T) {
	// One unit leaks per second, and an overflow blocks for ten.
	events, _ := listed(t, simulate.Over(2, 2*time.Second), simulate.Use{Penalty: 10 * time.Second}, 1, 0, 0, 0, 5000, 16000)
	got := ""
	for _, e := range events {
		got += map[bool]string{true: "y", false: "n"}[e.Accepted]
	}
	if got != "yynny" || events[2].RetryAfter != 10*time.Second {
		t.Errorf("%s, and the refusal names %v; want yynny and 10s", got, events[2].RetryAfter)
	}
}

// A bucket that is only filled decides alike, in whichever way the run calls it.
func TestUsesDecideAlike(t *testing.T) {
	arrivals := randomArrivals(5)
	plain := simulate.Over(16, 16*time.Second)
	want, _, _ := decided(t, arrivals, plain, simulate.LeakyBucket)
	late := plain
	late.Use.Queue = true // without a longest wait, a queue refuses as the bucket does
	got, _, _ := decided(t, arrivals, late, simulate.LeakyBucket)
	for i := range got {
		got[i].Wait = 0
	}
	if !slices.Equal(got, want) {
		t.Error("a queue accepts other arrivals than the bucket")
	}
}

// A wait in one queue is no wait in the next limit of the run.
func TestWaitsOfSeveralLimits(t *testing.T) {
	queue := simulate.Over(2, 2*time.Second)
	plain, impatient := queue, queue
	queue.Use.Queue = true
	impatient.Use = simulate.Use{Queue: true, MaxWait: 500 * time.Millisecond}
	var waits []time.Duration
	arrivals := []simulate.Arrival{{Key: "k", Cost: 1}, {Key: "k", Cost: 1}}
	_, err := simulate.Run(t.Context(), simulate.Of(arrivals...), simulate.Options{
		Limits: []simulate.Limit{queue, plain, queue, impatient},
		Watch:  func(e simulate.Event) { waits = append(waits, e.Wait) },
	})
	if want := []time.Duration{0, 1e9, 0, 0, 0, 1e9, 0, 0}; err != nil || !slices.Equal(waits, want) {
		t.Errorf("the waits are %v, %v; want %v", waits, err, want)
	}
}

func TestUsesAreChecked(t *testing.T) {
	limit := func(change func(*simulate.Limit)) simulate.Options {
		l := simulate.Over(1, time.Second)
		change(&l)
		return simulate.Options{Limits: []simulate.Limit{l}}
	}
	stored := inStore(t, simulate.Over(1, time.Second).Limit)
	stored.Limits[0].Use.Queue = true
	for says, o := range map[string]simulate.Options{
		"choose one":    limit(func(l *simulate.Limit) { l.Use = simulate.Use{Queue: true, Fillup: true} }),
		"needs a queue": limit(func(l *simulate.Limit) { l.Use.MaxWait = time.Second }),
		"be positive":   limit(func(l *simulate.Limit) { l.Use = simulate.Use{Queue: true, MaxWait: -1} }),
		"in memory":     limit(func(l *simulate.Limit) { l.Use.Queue, l.Algorithm = true, simulate.GCRA }),
		"leaky bucket":  stored,
	} {
		if _, err := simulate.Run(t.Context(), simulate.Of(), o); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("got %v; want an error with %q", err, says)
		}
	}
	for says, list := range map[string][]simulate.Timed{
		"order of time": {{At: 2, Cost: 1}, {At: 1, Cost: 1}},
		"cost is":       {{At: 2}},
		"within":        {{At: 25 * time.Hour, Cost: 1}},
	} {
		_, err := simulate.NewCallers(simulate.Pattern{Shape: simulate.Listed, List: list})
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("got %v; want an error with %q", err, says)
		}
	}
}
