package simulate_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/brimgo/brim/cmd/brim/internal/simulate"
)

// decided runs arrivals through an algorithm.
func decided(t testing.TB, arrivals []simulate.Arrival, l simulate.Limit, a simulate.Algorithm) (
	[]simulate.Event, *simulate.Exactness, simulate.Outcome,
) {
	t.Helper()
	l.Algorithm = a
	x := simulate.NewExactness(l)
	var events []simulate.Event
	rep, err := simulate.Run(t.Context(), simulate.Of(arrivals...), simulate.Options{
		Limits: []simulate.Limit{l}, Watch: func(e simulate.Event) {
			x.Add(e)
			events = append(events, e)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return events, x, rep.Outcomes[0]
}

// randomArrivals returns arrivals at multiples of an eighth of a second, at which no leak is rounded.
func randomArrivals(seed uint64) []simulate.Arrival {
	r := rand.New(rand.NewPCG(seed, 9))
	var all []simulate.Arrival
	at := simulate.Start.UnixMicro()
	for range 600 {
		at += int64(r.IntN(9)) * int64(r.IntN(3)) * 125_000
		all = append(all, simulate.Arrival{Time: at, Key: fmt.Sprint(r.IntN(3)), Cost: float64(1 + r.IntN(3)*r.IntN(2))})
	}
	return all
}

func TestBaselines(t *testing.T) {
	for seed := range uint64(30) {
		arrivals := randomArrivals(seed)
		limit := simulate.Over(float64(8+8*(seed%4)), 16*time.Second)
		all := map[simulate.Algorithm][]simulate.Event{}
		exact := map[simulate.Algorithm]*simulate.Exactness{}
		for _, a := range simulate.Algorithms() {
			all[a], exact[a], _ = decided(t, arrivals, limit, a)
		}
		if x := exact[simulate.SlidingLog]; x.Beyond != 0 || x.Early != 0 || x.Most > limit.Capacity {
			t.Errorf("seed %d: a sliding log is exact; got %d beyond, %d too early, %v in a window", seed, x.Beyond, x.Early, x.Most)
		}
		if x := exact[simulate.Rollups]; x.Beyond != 0 {
			t.Errorf("seed %d: rollups count more than the window holds; got %d beyond", seed, x.Beyond)
		}
		for _, a := range []simulate.Algorithm{simulate.FixedWindow, simulate.LeakyBucket, simulate.TokenBucket} {
			if x := exact[a]; x.Most > 2*limit.Capacity {
				t.Errorf("seed %d: %v in a window by a %v; want at most twice the capacity %v", seed, x.Most, a, limit.Capacity)
			}
		}
		// A token bucket is a leaky bucket seen from above: its tokens are the room. The theoretical
		// arrival time of GCRA is the time at which the leaky bucket is empty.
		for _, a := range []simulate.Algorithm{simulate.TokenBucket, simulate.GCRA} {
			if !slices.Equal(all[a], bare(all[simulate.LeakyBucket])) {
				t.Errorf("seed %d: %v and a leaky bucket decide differently", seed, a)
			}
		}
		checkFixedWindow(t, seed, all[simulate.FixedWindow], limit)
	}
}

// bare returns events without the answers that only brim's own algorithm gives.
func bare(events []simulate.Event) []simulate.Event {
	all := slices.Clone(events)
	for i := range all {
		all[i].RetryAfter, all[i].Full = 0, false
	}
	return all
}

// checkFixedWindow counts each window of each key anew.
func checkFixedWindow(t *testing.T, seed uint64, events []simulate.Event, l simulate.Limit) {
	t.Helper()
	sums := map[string]float64{}
	for _, e := range events {
		window := fmt.Sprint(e.Arrival.Key, e.At.UnixMicro()/l.Over.Microseconds())
		if want := sums[window]+e.Arrival.Cost <= l.Capacity; e.Accepted != want {
			t.Errorf("seed %d: a fixed window of %v units: accepted %v; want %v", seed, sums[window], e.Accepted, want)
		}
		if e.Accepted {
			sums[window] += e.Arrival.Cost
		}
	}
}

func TestWorkedBaselines(t *testing.T) {
	at := func(seconds ...float64) (all []simulate.Arrival) {
		for _, s := range seconds {
			micros := simulate.Start.UnixMicro() + int64(s*1e6)
			all = append(all, simulate.Arrival{Time: micros, Key: "k", Cost: 1})
		}
		return all
	}
	limit := simulate.Over(4, 10*time.Second)
	for _, tc := range []struct {
		why       string
		algorithm simulate.Algorithm
		arrivals  []simulate.Arrival
		want      string // y accepted, n refused
		numbers   int
	}{
		{"both sides of the edge are full", simulate.FixedWindow, at(8, 8, 9, 9, 9, 10, 10, 11, 11, 11), "yyyynyyyyn", 2},
		{"the window before counts wholly", simulate.Rollups, at(1, 1, 1, 1, 19, 20), "yyyyny", 3},
		{"an idle window empties both", simulate.Rollups, at(1, 1, 1, 1, 35), "yyyyy", 3},
		{"3 of 4 overlap at 12.5 s, and 2 at 15 s", simulate.SlidingCounter, at(1, 1, 1, 1, 12.5, 12.5, 15, 15), "yyyyynyn", 3},
		{"a request leaves after exactly 10 s", simulate.SlidingLog, at(1, 2, 3, 4, 10.5, 11, 11), "yyyynyn", 8},
		{"requests of the same moment do not see each other", simulate.NaiveCounter, at(1, 1, 1, 1, 1, 1.001, 1.002), "yyyyyyn", 12},
		{"one token comes in 2.5 s", simulate.TokenBucket, at(0, 0, 0, 0, 0, 2.4, 2.5, 2.5), "yyyynnyn", 2},
		{"the arrival time moves by 2.5 s", simulate.GCRA, at(0, 0, 0, 0, 0, 2.4, 2.5, 2.5), "yyyynnyn", 1},
		{"one unit leaks in 2.5 s", simulate.LeakyBucket, at(0, 0, 0, 0, 0, 2.4, 2.5, 2.5), "yyyynnyn", 2},
	} {
		events, _, o := decided(t, tc.arrivals, limit, tc.algorithm)
		got := ""
		for _, e := range events {
			got += map[bool]string{true: "y", false: "n"}[e.Accepted]
		}
		if got != tc.want || o.Numbers != tc.numbers {
			t.Errorf("%v: %s: %s, %d numbers kept; want %s and %d", tc.algorithm, tc.why, got, o.Numbers, tc.want, tc.numbers)
		}
	}
}

func TestBaselinesAreChecked(t *testing.T) {
	leak, unknown, stored := simulate.Over(1, time.Second), simulate.Over(1, time.Second), inStore(t, simulate.Over(1, time.Second).Limit)
	leak.Algorithm, leak.LeakRate = simulate.FixedWindow, 0
	unknown.Algorithm = "guess"
	stored.Limits[0].Algorithm = simulate.TokenBucket
	for name, o := range map[string]simulate.Options{
		"no window": {Limits: []simulate.Limit{leak}}, "unknown": {Limits: []simulate.Limit{unknown}}, "in a store": stored,
	} {
		if _, err := simulate.Run(t.Context(), simulate.Of(), o); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
