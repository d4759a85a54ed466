package soak

import (
	"math"
	"os"
	"testing"
	"time"

	"github.com/brimgo/brim"
)

// leak is a store in memory that leaks a resource with each sample.
type leak struct {
	resource string // the name of the resource; "" if the store does not leak
	kept     [][]byte
	files    []*os.File
	done     chan struct{}
	size     int64
	opened   int
}

// open opens the store. Each sample calls s.disk once, so s.disk makes the leak.
func (l *leak) open(t *testing.T, w *work) *subject {
	s := inMemory(t, w)
	l.done = make(chan struct{})
	t.Cleanup(func() {
		close(l.done)
		for _, f := range l.files {
			_ = f.Close()
		}
	})
	s.disk = func(t testing.TB) int64 {
		switch l.resource {
		case "bytes of memory":
			l.kept = append(l.kept, make([]byte, 1<<16))
		case "bytes on disk":
			l.size += 1 << 16
		case "goroutines between rounds":
			go func() { <-l.done }()
		case "file descriptors":
			f, err := os.Open(os.DevNull)
			if err != nil {
				t.Fatal(err)
			}
			l.files = append(l.files, f)
		case "connections":
			l.opened++
		}
		return l.size
	}
	s.connections = func() int { return l.opened }
	return s
}

// TestCatch tests that the slopes show the leak of each resource, and no other.
func TestCatch(t *testing.T) {
	rounds := 45
	if testing.Short() {
		rounds = 27
	}
	for _, leaking := range []string{
		"", "bytes of memory", "bytes on disk", "goroutines between rounds", "file descriptors", "connections",
	} {
		t.Run("leaks "+leaking, func(t *testing.T) {
			if _, err := os.Stat("/proc/self/fd"); err != nil && leaking == "file descriptors" {
				t.Skip("this system does not list file descriptors")
			}
			l := &leak{resource: leaking}
			w := newWork(plan{
				seed: newSeed(t), rounds: rounds, round: time.Minute, calls: 200, keys: 300, pace: 50,
				limit: brim.Limit{Capacity: 100, LeakRate: 1}, scarce: brim.Limit{Capacity: 100, LeakRate: 1},
			})
			s := l.open(t, w)
			for _, x := range slopes(measure(t, w, s)[w.rounds/3:], s) {
				if x.grows() != (x.name == leaking) {
					t.Errorf("%s: a slope of %s per hour for %.2f hours is growth: %v", x.name, x.perHour(), x.hours, x.grows())
				}
			}
			if err := s.duty.close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestFit fits lines through known points.
func TestFit(t *testing.T) {
	for _, c := range []struct {
		name         string
		ys           []float64
		slope, error float64
	}{
		{"level", []float64{5, 5, 5, 5}, 0, 0},
		{"line", []float64{1, 3, 5, 7}, 2, 0},
		{"noise", []float64{1, -1, 1, -1}, -0.4, math.Sqrt(3.2 / 2 / 5)},
	} {
		got := fit([]float64{0, 1, 2, 3}, c.ys)
		if math.Abs(got.slope-c.slope) > 1e-12 || math.Abs(got.error-c.error) > 1e-12 || got.hours != 3 {
			t.Errorf("%s: a slope of %v ± %v; want %v ± %v", c.name, got.slope, got.error, c.slope, c.error)
		}
	}
}

// TestOften tests that the report has the slopes of memory and disk.
func TestOften(t *testing.T) {
	trends := []trend{
		{name: resources[0].name, slope: 1234.4, error: 5},
		{name: resources[1].name, slope: -2, error: 0.6},
		{name: resources[2].name, slope: 3, error: 1},
	}
	const want = "7 calls, bytes of memory 1234 ± 5 per hour, bytes on disk -2 ± 1 per hour"
	if got := often(7, trends); got != want {
		t.Errorf("the report says %q, want %q", got, want)
	}
	if got := often(7, nil); got != "7 calls" {
		t.Errorf("without trends the report says %q", got)
	}
}

// TestGrows tests that only a leak grows, and not a level, noise or a step that ends a warm-up.
func TestGrows(t *testing.T) {
	for _, c := range []struct {
		name string
		ys   []float64
		want bool
	}{
		{"level", []float64{50, 50, 50, 50, 50, 50, 50, 50}, false},
		{"noise", []float64{50, 55, 48, 52, 51, 49, 54, 50}, false},
		{"line", []float64{50, 60, 70, 80, 90, 100, 110, 120}, true},
		{"stairs", []float64{50, 50, 70, 70, 90, 90, 110, 110}, true},
		{"step of a warm-up", []float64{10, 10, 80, 80, 80, 80, 80, 80}, false},
		{"step of a warm-up, then a line", []float64{10, 10, 80, 80, 90, 100, 110, 120}, true},
	} {
		trend := fit([]float64{0, 1, 2, 3, 4, 5, 6, 7}, c.ys)
		if trend.grows() != c.want {
			t.Errorf("%s: %+v grows: %v, want %v", c.name, trend, !c.want, c.want)
		}
	}
}

// TestTurn tests that turn chooses each subject on one of as many days as there are subjects, and
// finds a subject by its name.
func TestTurn(t *testing.T) {
	all := realSubjects()
	had := make(map[string]int)
	for day := range all {
		had[turn(realSubjects(), "", 100+day)[0].name]++
	}
	for _, s := range all {
		if named := turn(realSubjects(), s.name, 1); had[s.name] != 1 || len(named) != 1 || named[0].name != s.name {
			t.Errorf("%s has %d turns in %d nights, and its name finds %v", s.name, had[s.name], len(all), named)
		}
	}
}

// TestFaster tests that a subject that keeps the calls of the last seconds may grow with their
// rate.
func TestFaster(t *testing.T) {
	for _, c := range []struct {
		recent       bool
		second, last int64
		want         float64
	}{
		{true, 100, 250, 2.5},
		{true, 100, 80, 1}, // never below 1: the first samples of a slower third hold the rows of the faster one
		{false, 100, 250, 1},
	} {
		s := &subject{recent: c.recent}
		if got := s.faster(sample{Calls: c.second}, sample{Calls: c.last}); got != c.want {
			t.Errorf("recent %v, %d and then %d calls in a round: %v times as much; want %v", c.recent, c.second, c.last, got, c.want)
		}
	}
}
