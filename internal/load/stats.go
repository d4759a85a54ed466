package load

import "slices"

// Median reports the middle of the values, or between the two in the middle; 0 of none. It leaves the values as they are.
func Median(values []float64) float64 {
	v := slices.Sorted(slices.Values(values))
	switch n := len(v); {
	case n == 0:
		return 0
	case n%2 == 1:
		return v[n/2]
	default:
		return (v[n/2-1] + v[n/2]) / 2
	}
}

// Ratio reports the median of the ratios of rounds that were next to each other: what else the machine did meanwhile befell
// both. Rounds that are missing on either side, or have nothing to divide by, do not count; ok is false where none is left.
func Ratio(ours, theirs []float64) (ratio float64, ok bool) {
	var ratios []float64
	for i := range min(len(ours), len(theirs)) {
		if theirs[i] > 0 {
			ratios = append(ratios, ours[i]/theirs[i])
		}
	}
	return Median(ratios), len(ratios) > 0
}
