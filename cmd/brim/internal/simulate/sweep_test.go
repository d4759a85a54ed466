package simulate_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/brimgo/brim/cmd/brim/internal/simulate"
)

func TestCapacities(t *testing.T) {
	for _, tc := range []struct {
		why       string
		low, high float64
		want      []float64
	}{
		{"whole numbers from 1 up", 1, 20, []float64{1, 2, 3, 5, 7, 10, 15, 20}},
		{"both bounds belong to the list", 30, 30, []float64{30}},
		{"fractions below 1", 0.1, 2, []float64{0.1, 0.15, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2}},
		{"none in between", 31, 49, nil},
	} {
		if got := simulate.Capacities(tc.low, tc.high); !slices.Equal(got, tc.want) {
			t.Errorf("%s: %v; want %v", tc.why, got, tc.want)
		}
	}
}

func TestWith(t *testing.T) {
	over := simulate.Over(10, 5*time.Second).With([]float64{20})[0]
	if over.Over != 5*time.Second || over.LeakRate != 4 || over.Capacity != 20 {
		t.Errorf("limits that drain in the same time: %+v", over)
	}
	rate := simulate.Limit{Limit: simulate.Over(10, 5*time.Second).Limit}.With([]float64{20})[0]
	if rate.Over != 0 || rate.LeakRate != 2 || rate.Capacity != 20 {
		t.Errorf("limits that leak at the same rate: %+v", rate)
	}
}

func TestSmallest(t *testing.T) {
	outcomes := func(refused ...int64) []simulate.Outcome {
		var all []simulate.Outcome
		for _, n := range refused {
			all = append(all, simulate.Outcome{Accepted: 100 - n, Refused: n})
		}
		return all
	}
	for _, tc := range []struct {
		why      string
		outcomes []simulate.Outcome
		share    float64
		want     int
	}{
		{"the first that refuses few enough", outcomes(50, 5, 1, 0), 0.01, 2},
		{"a share that is met exactly suffices", outcomes(50, 29, 1), 29. / 100, 1},
		{"every larger limit must suffice, too", outcomes(50, 1, 2, 0), 0.01, 3},
		{"none suffices", outcomes(50, 5, 2), 0.01, -1},
		{"all suffice", outcomes(1, 0), 0.01, 0},
		{"nothing may be refused", outcomes(1, 0), 0, 1},
	} {
		if got := simulate.Smallest(tc.outcomes, tc.share); got != tc.want {
			t.Errorf("%s: %d; want %d", tc.why, got, tc.want)
		}
	}
}

// With equal costs, a larger limit never refuses more.
func TestLargerLimitsRefuseLess(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 7))
		var arrivals []simulate.Arrival
		at := int64(0)
		for range 3000 {
			at += int64(r.ExpFloat64() * 1e6)
			arrivals = append(arrivals, simulate.Arrival{Time: at, Key: fmt.Sprint(r.IntN(4)), Cost: 1})
		}
		for _, base := range []simulate.Limit{simulate.Over(1, 20*time.Second), {Limit: simulate.Over(1, 9*time.Second).Limit}} {
			rep, err := simulate.Run(t.Context(), simulate.Of(arrivals...), simulate.Options{
				Limits: base.With(simulate.Capacities(1, 100)), Cost: 1,
			})
			if err != nil {
				t.Fatal(err)
			}
			for i := 1; i < len(rep.Outcomes); i++ {
				if rep.Outcomes[i].Refused > rep.Outcomes[i-1].Refused {
					t.Errorf("seed %d: capacity %v refuses %d, and %v refuses %d", seed, rep.Outcomes[i].Limit.Capacity,
						rep.Outcomes[i].Refused, rep.Outcomes[i-1].Limit.Capacity, rep.Outcomes[i-1].Refused)
				}
			}
		}
	}
}
