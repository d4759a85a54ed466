package plot

import (
	"math"
	"slices"
	"testing"
)

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 1: "1", 0.0123456: "0.0123", 9.996: "10", 12.34: "12.3", 999.4: "999", 999.9: "1k", 1000: "1k", 1234: "1.23k", 67_000: "67k",
		999_900: "1M", 2_345_678: "2.35M", 1e9: "1G", -1500: "-1.5k", 100: "100", 0.5: "0.5",
	} {
		if got := Number(v); got != want {
			t.Errorf("%v is written %s, want %s", v, got, want)
		}
	}
}

func TestLogScale(t *testing.T) {
	s := logScale([]float64{30, 0, 20_000}, 100, 500)
	if got := len(s.ticks()); got != 5 {
		t.Errorf("%v: want 10 to 100,000", s.ticks())
	}
	for v, want := range map[float64]float64{10: 100, 1000: 300, 100_000: 500, 0: 100, 1: 100, 1e9: 500, -1: 100} {
		if got := s.at(v); math.Abs(got-want) > 1e-9 {
			t.Errorf("%v is at %v, want %v: a value beyond the scale is at its end", v, got, want)
		}
	}
	for _, values := range [][]float64{nil, {0}, {100}, {math.Inf(1)}} {
		if s := logScale(values, 0, 1); !(s.high > s.low) || len(s.ticks()) < 2 {
			t.Errorf("%v gives the empty scale %+v", values, s)
		}
	}
}

func TestLinearScale(t *testing.T) {
	for _, c := range []struct {
		name   string
		axis   Axis
		values []float64
		want   []float64
	}{
		{"chosen by the caller", Axis{Max: 180, Step: 60}, []float64{7}, []float64{0, 60, 120, 180}},
		{"chosen by the values", Axis{}, []float64{3, 9.3, math.NaN()}, []float64{0, 2, 4, 6, 8, 10}},
		{"values beyond the end", Axis{Max: 4}, []float64{9.3}, []float64{0, 2, 4, 6, 8, 10}},
		{"an end between two numbers", Axis{Max: 2.5, Step: 1}, nil, []float64{0, 1, 2}},
		{"no values", Axis{}, nil, []float64{0, 0.2, 0.4, 0.6, 0.8, 1}},
		{"small values", Axis{}, []float64{0.0005}, []float64{0, 0.0001, 0.0002, 0.0003, 0.0004, 0.0005}},
		{"rows", Axis{Rows: []string{"a", "b"}}, nil, []float64{0, 1}},
	} {
		s := c.axis.newScale(c.values, 0, 100)
		if got := s.ticks(); !slices.EqualFunc(got, c.want, func(a, b float64) bool { return math.Abs(a-b) < 1e-12 }) {
			t.Errorf("%s: numbers at %v, want %v", c.name, got, c.want)
		}
	}
	s := (&Axis{Max: 2.5}).newScale(nil, 100, 0)
	for v, want := range map[float64]float64{0: 100, 1: 60, 2.5: 0, -1: 100} {
		if got := s.at(v); math.Abs(got-want) > 1e-9 {
			t.Errorf("%v is at %v, want %v", v, got, want)
		}
	}
}
