package load

import (
	"context"
	"errors"
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

func TestDraw(t *testing.T) {
	const keys, fullKeys = 1000, 100
	count := func(distribution string, refused float64) (of [keys]int, full int) {
		t.Helper()
		order, err := Draw(distribution, keys, fullKeys, refused, 7)
		if err != nil {
			t.Fatal(err)
		}
		for _, turn := range order {
			if turn < 0 {
				if full++; int(^turn) >= fullKeys {
					t.Fatalf("full key %d of %d", ^turn, fullKeys)
				}
				continue
			}
			of[turn]++
		}
		return of, full
	}
	for _, c := range []struct {
		distribution         string
		first, tenth, within float64 // shares of ranks 1 and 10, and tolerance
	}{
		// The share of rank k is k^-1.1 over the sum of k^-1.1 for all ranks, 5.5728 for 1000 keys.
		{"zipf", 0.17944, 0.014254, 0.04},
		{"uniform", 0.001, 0.001, 0.15},
		{"hot", 1, 0, 0},
	} {
		of, full := count(c.distribution, 0)
		if full != 0 {
			t.Errorf("%s: %d turns on full buckets, want none", c.distribution, full)
		}
		for rank, want := range map[int]float64{0: c.first, 9: c.tenth} {
			got := float64(of[rank]) / turns
			if math.Abs(got-want) > c.within*want {
				t.Errorf("%s: rank %d has the share %v, want %v", c.distribution, rank+1, got, want)
			}
		}
		if c.distribution != "hot" && slices.Min(of[:]) == 0 {
			t.Errorf("%s: a key is never drawn", c.distribution)
		}
	}
	for _, refused := range []float64{0.5, 0.95, 1} {
		if _, full := count("uniform", refused); math.Abs(float64(full)/turns-refused) > 0.005 {
			t.Errorf("the share of full buckets is %[2]v, want %[1]v", refused, float64(full)/turns)
		}
	}
	for _, err := range []error{
		second(Draw("normal", 1, 1, 0, 1)), second(Draw("hot", 0, 1, 0, 1)), second(Draw("hot", 1, 0, 0, 1)), second(Draw("hot", 1, 1, 2, 1)),
	} {
		if err == nil {
			t.Error("invalid arguments give an order")
		}
	}
}

func second(_ Order, err error) error { return err }

func TestRun(t *testing.T) {
	order, err := Draw("uniform", 10, 5, 0.25, 1)
	if err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	for _, burst := range []int{0, 1, 64} {
		var calls, busy atomic.Int64
		o := Options{Callers: 4, For: 20 * time.Millisecond, Order: order, Burst: burst, Tolerant: true}
		o.Decide = func(_ context.Context, key int, full bool) (bool, error) {
			busy.Add(1)
			defer busy.Add(-1)
			if busy.Load() > 4 || key < 0 || key > 9 || full && key > 4 {
				return false, errors.ErrUnsupported
			}
			if calls.Add(1)%100 == 0 {
				return false, broken
			}
			return !full, nil
		}
		res, err := Run(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		if res.Err != nil && !errors.Is(res.Err, broken) {
			t.Fatalf("burst %d: a caller asked for a key that does not exist", burst)
		}
		if all := res.Accepted + res.Refused + res.Failed; all != uint64(calls.Load()) || res.Failed != all/100 {
			t.Errorf("burst %d: %d accepted, %d refused, %d failed of %d calls", burst, res.Accepted, res.Refused,
				res.Failed, calls.Load())
		}
		if share := float64(res.Refused) / float64(res.Accepted+res.Refused); calls.Load() > 10_000 &&
			math.Abs(share-0.25) > 0.05 {
			t.Errorf("burst %d: the refused share is %v, want a quarter", burst, share)
		}
		if res.Elapsed < o.For || res.PerSecond() <= 0 || res.Took.Quantile(0.99) <= 0 {
			t.Errorf("burst %d: %v, %v/s, p99 %v", burst, res.Elapsed, res.PerSecond(), res.Took.Quantile(0.99))
		}
	}
}

func TestRunEnds(t *testing.T) {
	order, err := Draw("hot", 1, 1, 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	var calls atomic.Int64
	o := Options{Callers: 3, For: time.Hour, Order: order, Decide: func(context.Context, int, bool) (bool, error) {
		if calls.Add(1) == 100 {
			return false, broken
		}
		return true, nil
	}}
	o.Decide = unlessDone(o.Decide)
	if _, err := Run(t.Context(), o); !errors.Is(err, broken) {
		t.Errorf("got %v, want the error at once", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	o.Tolerant = true
	time.AfterFunc(10*time.Millisecond, func() { cancel(broken) })
	if _, err := Run(ctx, o); !errors.Is(err, broken) {
		t.Errorf("got %v, want the interrupt, which also ends a tolerant run", err)
	}
}

// unlessDone returns a function that fails when the context is done, as a limiter does.
func unlessDone(f func(context.Context, int, bool) (bool, error)) func(context.Context, int, bool) (bool, error) {
	return func(ctx context.Context, key int, full bool) (bool, error) {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		return f(ctx, key, full)
	}
}

func TestInterleave(t *testing.T) {
	for n := 1; n <= 6; n++ {
		first := make([]int, n)     // how often each subject begins a round
		follows := map[[2]int]int{} // how often the second runs right after the first within a round
		var last, all int
		turns := 0
		const rounds = 60 // all of n divide it
		err := Interleave(rounds, n, func(round, subject int) error {
			if turns%n == 0 {
				first[subject]++
				all = 0
			} else {
				follows[[2]int{last, subject}]++
			}
			if round != turns/n || all&(1<<subject) != 0 {
				t.Fatalf("%d subjects: subject %d runs again in round %d", n, subject, round)
			}
			all |= 1 << subject
			last = subject
			turns++
			return nil
		})
		if err != nil || turns != rounds*n {
			t.Fatalf("%d subjects: %d turns in %d rounds, %v", n, turns, rounds, err)
		}
		for pair, times := range follows {
			if back := follows[[2]int{pair[1], pair[0]}]; n > 1 && back == 0 {
				t.Errorf("%d subjects: %d runs after %d in %d rounds, and never before it", n, pair[1], pair[0], times)
			}
		}
		for subject, times := range first {
			if n <= 2 && times != rounds/n {
				t.Errorf("%d subjects: %d begins %d of %d rounds", n, subject, times, rounds)
			}
		}
	}
	broken := errors.New("broken")
	turns := 0
	err := Interleave(2, 2, func(int, int) error { turns++; return broken })
	if !errors.Is(err, broken) || turns != 1 {
		t.Errorf("%v after %d turns; want the first error at once", err, turns)
	}
}
