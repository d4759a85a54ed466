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

// randomArrivals returns arrivals at multiples of an eighth of a second, at which no leak is
// rounded.
func randomArrivals(seed uint64) []simulate.Arrival {
	r := rand.New(rand.NewPCG(seed, 9))
	var all []simulate.Arrival
	at := simulate.Start.UnixMicro()
	for i := range 600 {
		at += int64(r.IntN(9)) * int64(r.IntN(3)) * 125_000
		if i%200 == 0 {
			at += 40e6 // more than two windows without an arrival
		}
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
		// A token bucket is a leaky bucket seen from above: its tokens are the room. The
		// theoretical arrival time of GCRA is the time at which the leaky bucket is empty.
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
