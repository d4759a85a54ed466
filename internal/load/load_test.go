package load

import (
	"context"
	"math"
	"slices"
	"sync/atomic"
	"testing"
	"time"
)

func TestMedianAndRatio(t *testing.T) {
	for _, c := range []struct {
		why    string
		values []float64
		want   float64
	}{
		{"odd number: the middle value in any order", []float64{9, 1, 2}, 2},
		{"even number: between the two middle values", []float64{4, 1, 3, 2}, 2.5},
		{"an outlier has no effect", []float64{5, 5, 5, 5, 1e9}, 5},
		{"no values", nil, 0},
	} {
		if got := Median(c.values); got != c.want {
			t.Errorf("median of %v is %v, want %v: %s", c.values, got, c.want, c.why)
		}
	}
	values := []float64{3, 1, 2}
	Median(values)
	if !slices.Equal(values, []float64{3, 1, 2}) {
		t.Errorf("the values were sorted: %v; ratios pair them by their order", values)
	}
	// Medians of each side are 2 and 2, but every pair has the ratio 0.5, 1 or 4.
	if got, ok := Ratio([]float64{1, 2, 8}, []float64{2, 2, 2}); !ok || got != 1 {
		t.Errorf("ratio %v, %v", got, ok)
	}
	if got, ok := Ratio([]float64{1, 4, 9}, []float64{2, 0}); !ok || got != 0.5 {
		t.Errorf("ratio %v, %v; rounds without a partner, or with 0, do not count", got, ok)
	}
	if _, ok := Ratio([]float64{1}, nil); ok {
		t.Error("there is a ratio without rounds")
	}
}

func TestHistogram(t *testing.T) {
	var empty Histogram
	if empty.Quantile(0.5) != 0 {
		t.Error("an empty histogram has a quantile")
	}
	for _, d := range []time.Duration{-1, 0, 1, 127, 128, 129, 999, time.Microsecond, time.Millisecond, time.Hour, math.MaxInt64} {
		var h Histogram
		h.Observe(d)
		want := float64(max(0, d)) / 1e6
		if got := h.Quantile(0.5); math.Abs(got-want) > 0.016*want {
			t.Errorf("%v is read as %v ms, want %v within a class", d, got, want)
		}
	}
	var a, b Histogram
	for i := 1; i <= 1000; i++ {
		if i%2 == 0 {
			a.Observe(time.Duration(i) * time.Millisecond)
		} else {
			b.Observe(time.Duration(i) * time.Millisecond)
		}
	}
	a.Add(&b)
	for q, want := range map[float64]float64{0: 1, 0.5: 500, 0.99: 990} {
		if got := a.Quantile(q); math.Abs(got-want) > 0.02*want {
			t.Errorf("quantile %v of 1 to 1000 ms is %v, want %v", q, got, want)
		}
	}
}

// A closed loop would time one slow answer, and make no calls meanwhile.
func TestRunOpenCountsTheWaitBehindAStall(t *testing.T) {
	var calls atomic.Int64
	const stall = 60 * time.Millisecond
	o := Options{Callers: 1, For: 100 * time.Millisecond, Order: Order{0}}
	o.Decide = func(context.Context, int, bool) (bool, error) {
		if calls.Add(1) == 1 {
			time.Sleep(stall)
		}
		return true, nil
	}
	res, err := RunOpen(t.Context(), o, 1000)
	if err != nil {
		t.Fatal(err)
	}
	// Of the 100 calls, one in each millisecond, 60 were due during the stall.
	if got := res.Took.Quantile(0.55); res.Accepted != 100 || got < 4 {
		t.Errorf("%d calls, 45 %% of them longer than %v ms; want those behind the stall to count from their due times",
			res.Accepted, got)
	}
	if got := res.Took.Quantile(0.995); got < 58 {
		t.Errorf("the slowest call took %v ms, want about %v", got, stall)
	}
}
