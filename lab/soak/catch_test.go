package soak

import (
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
	for _, leaking := range []string{
		"", "bytes of memory", "bytes on disk", "goroutines between rounds", "file descriptors", "connections",
	} {
		t.Run("leaks "+leaking, func(t *testing.T) {
			if _, err := os.Stat("/proc/self/fd"); err != nil && leaking == "file descriptors" {
				t.Skip("this system does not list file descriptors")
			}
			l := &leak{resource: leaking}
			w := newWork(plan{
				seed: newSeed(t), rounds: 45, round: 20 * time.Millisecond, keys: 300,
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
