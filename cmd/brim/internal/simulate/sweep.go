package simulate

import (
	"math"
	"strconv"
)

// The capacities within a decade. A step to the next is a factor of 1.33 to 1.67.
var steps = []float64{1, 1.5, 2, 3, 5, 7}

// Capacities returns the capacities from low to high that are 1, 1.5, 2, 3, 5 or 7 times a power
// of ten, in ascending order. If low is at least 1, all of them are whole numbers. Both bounds must
// be positive.
func Capacities(low, high float64) []float64 {
	var all []float64
	for exponent := math.Floor(math.Log10(low)); exponent <= math.Ceil(math.Log10(high)); exponent++ {
		for _, step := range steps {
			c := round(step * math.Pow(10, exponent))
			if c >= low && c <= high && (low < 1 || c == math.Trunc(c)) {
				all = append(all, c)
			}
		}
	}
	return all
}

// round removes the rounding error of a product: 3 * 0.1 is 0.3.
func round(v float64) float64 {
	r, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 12, 64), 64) // cannot fail
	return r
}

// With returns limits with the given capacities. They drain in the same time as l if l.Over is
// set, and have the leak rate of l otherwise.
func (l Limit) With(capacities []float64) []Limit {
	all := make([]Limit, len(capacities))
	for i, c := range capacities {
		if l.Over > 0 {
			all[i] = Over(c, l.Over)
			continue
		}
		all[i] = l
		all[i].Capacity = c
	}
	return all
}

// Smallest returns the index of the first outcome from which on every outcome refuses at most the
// given share of the requests, or -1 if the last outcome refuses more. The outcomes must be in the
// order of their capacities.
//
// With equal costs a larger limit never refuses more. With different costs it can: it accepts a
// large request, and then refuses many small ones.
func Smallest(outcomes []Outcome, share float64) int {
	found := -1
	for i := len(outcomes) - 1; i >= 0 && outcomes[i].Share() <= share; i-- {
		found = i
	}
	return found
}
