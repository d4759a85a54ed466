package plot

import (
	"fmt"
	"math"
	"strings"
)

// scale maps the values of an axis to pixels.
type scale struct {
	low, high float64 // the values at both ends, or their logarithms
	from, to  float64 // the pixels at both ends
	step      float64 // between numbers
	log       bool
}

// newScale returns a scale of the axis that has room for the values between the pixels from and to.
func (a *Axis) newScale(values []float64, from, to float64) scale {
	switch {
	case len(a.Rows) > 0:
		return scale{low: -0.5, high: float64(len(a.Rows)) - 0.5, from: from, to: to, step: 1}
	case a.Log:
		return logScale(values, from, to)
	}
	top := a.Max
	for _, v := range values {
		if finite(v) {
			top = max(top, v)
		}
	}
	if !(top > 0) {
		top = 1
	}
	step := a.Step
	if !(step > 0) {
		step = roundStep(top / 5)
	}
	if top > a.Max { // if the values set the end, it is a whole number of steps
		top = step * math.Ceil(top/step-1e-9)
	}
	return scale{high: top, from: from, to: to, step: step}
}

func logScale(values []float64, from, to float64) scale {
	low, high := math.Inf(1), math.Inf(-1)
	for _, v := range values {
		if v > 0 && finite(v) {
			low, high = min(low, math.Floor(math.Log10(v))), max(high, math.Ceil(math.Log10(v)))
		}
	}
	if low > high {
		low, high = 0, 1
	}
	if low == high {
		high++
	}
	return scale{low: low, high: high, from: from, to: to, step: 1, log: true}
}

// roundStep returns the smallest number that is 1, 2, 2.5 or 5 times a power of ten and at least v,
// apart from rounding.
func roundStep(v float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, times := range []float64{1, 2, 2.5, 5} {
		if times*power >= v*(1-1e-9) {
			return times * power
		}
	}
	return 10 * power
}

// at returns the pixel of a value. A value beyond an end of the scale is put at that end.
func (s scale) at(v float64) float64 {
	if s.log {
		v = math.Log10(max(0, v))
	}
	share := min(1, max(0, (v-s.low)/(s.high-s.low)))
	return s.from + share*(s.to-s.from)
}

// ticks returns the values that have a number on the axis.
func (s scale) ticks() []float64 {
	var all []float64
	first := math.Ceil(s.low / s.step) // rows begin half a step before their first name
	for i := 0.0; ; i++ {
		v := (first + i) * s.step
		if v > s.high+s.step*1e-9 {
			return all
		}
		if s.log {
			v = math.Pow(10, v)
		}
		all = append(all, v)
	}
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// units are the suffixes of large numbers.
var units = []struct {
	size float64
	name string
}{{1e9, "G"}, {1e6, "M"}, {1e3, "k"}}

// Number writes a value with three significant digits, and with k, M and G for thousands,
// millions and billions.
func Number(v float64) string {
	for _, unit := range units {
		if math.Abs(v) >= 0.9995*unit.size { // a value that rounds to 1000 is 1 of the next unit
			return threeDigits(v/unit.size) + unit.name
		}
	}
	return threeDigits(v)
}

func threeDigits(v float64) string {
	if v == 0 {
		return "0"
	}
	digits := 2 - int(math.Floor(math.Log10(math.Abs(v))))
	s := fmt.Sprintf("%.*f", max(0, digits), v)
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}
