package load

import "slices"

// Median returns the middle value, or the mean of the two middle values. It returns 0 if there
// are no values. It does not change the order of values.
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

// Ratio returns the median of the ratios of two subjects, paired by round. Other work of the
// machine slows both subjects of a round alike. A round does not count if it is missing on one
// side, or if theirs is 0. ok is false if no round counts.
func Ratio(ours, theirs []float64) (ratio float64, ok bool) {
	var ratios []float64
	for i := range min(len(ours), len(theirs)) {
		if theirs[i] > 0 {
			ratios = append(ratios, ours[i]/theirs[i])
		}
	}
	return Median(ratios), len(ratios) > 0
}
