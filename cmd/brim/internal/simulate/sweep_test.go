package simulate_test

import (
	"slices"
	"testing"

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
