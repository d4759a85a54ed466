package soak

import (
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/brimgo/brim/internal/table"
)

// sample holds the resources that a store takes.
type sample struct {
	At          time.Duration // since the load began
	Heap, Disk  int64         // bytes
	Goroutines  int
	Descriptors int   // of files; 0 where the system does not list them
	Connections int   // to a server
	Calls       int64 // in the round before
}

// take measures a store between two rounds, while no call is in flight.
func take(t *testing.T, w *work, s *subject) sample {
	t.Helper()
	if s.drain != nil {
		if err := s.drain(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	runtime.GC()
	runtime.GC() // the second run frees the values that had finalizers
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	x := sample{At: w.passed(), Heap: int64(m.HeapAlloc), Disk: s.disk(t), Goroutines: runtime.NumGoroutine()}
	if files, err := os.ReadDir("/proc/self/fd"); err == nil {
		x.Descriptors = len(files)
	}
	if s.connections != nil {
		x.Connections = s.connections()
	}
	return x
}

func most(samples []sample) (m sample) {
	for _, s := range samples {
		m.Heap, m.Disk, m.Goroutines = max(m.Heap, s.Heap), max(m.Disk, s.Disk), max(m.Goroutines, s.Goroutines)
		m.Descriptors, m.Connections = max(m.Descriptors, s.Descriptors), max(m.Connections, s.Connections)
		m.Calls = max(m.Calls, s.Calls)
	}
	return m
}

// resource is one of the figures of a sample.
type resource struct {
	name    string
	of      func(sample) float64
	allowed func(*subject) float64 // growth that is a step, and no leak
}

// fixed allows the same growth of every subject.
func fixed(n float64) func(*subject) float64 { return func(*subject) float64 { return n } }

var resources = []resource{
	{"bytes of memory", func(s sample) float64 { return float64(s.Heap) }, fixed(heapStep)},
	{
		"bytes on disk", func(s sample) float64 { return float64(s.Disk) },
		func(s *subject) float64 { return float64(s.step) },
	},
	{"goroutines between rounds", func(s sample) float64 { return float64(s.Goroutines) }, fixed(2)},
	{"file descriptors", func(s sample) float64 { return float64(s.Descriptors) }, fixed(2)},
	{"connections", func(s sample) float64 { return float64(s.Connections) }, fixed(2)},
}

// trend is the line of least squares through the samples of a resource.
type trend struct {
	name         string
	slope, error float64 // per hour; the error is that of the slope
	mean         float64
	hours        float64 // from the first sample to the last
	first, last  float64 // peaks of the first and the second half of the samples
	step         float64 // growth that is allowed
}

// slopes returns the trend of each resource.
func slopes(samples []sample, s *subject) (all []trend) {
	for _, r := range resources {
		var xs, ys []float64
		for _, x := range samples {
			xs, ys = append(xs, x.At.Hours()), append(ys, r.of(x))
		}
		t := fit(xs, ys)
		t.name, t.step = r.name, r.allowed(s)
		all = append(all, t)
	}
	return all
}

// fit returns the line of least squares, and the standard error of its slope.
func fit(xs, ys []float64) trend {
	n := float64(len(xs))
	var mx, my float64
	for i := range xs {
		mx, my = mx+xs[i]/n, my+ys[i]/n
	}
	var xx, xy float64
	for i := range xs {
		xx, xy = xx+(xs[i]-mx)*(xs[i]-mx), xy+(xs[i]-mx)*(ys[i]-my)
	}
	half := len(ys) / 2
	t := trend{
		mean: my, hours: xs[len(xs)-1] - xs[0], slope: xy / xx,
		first: slices.Max(ys[:half]), last: slices.Max(ys[half:]),
	}
	var left float64 // squares that the line leaves
	for i := range xs {
		d := ys[i] - my - t.slope*(xs[i]-mx)
		left += d * d
	}
	t.error = math.Sqrt(left / (n - 2) / xx)
	return t
}

// grows reports whether the slope is more than noise: more than four times its error, and more than
// the steps in which the resource may grow and a tenth of its mean, over the whole time. A step in
// the first half, after which the peak stays, is the end of a warm-up on a slow machine: a leak
// goes on in the second half.
func (t trend) grows() bool {
	return t.slope > 4*t.error && t.slope*t.hours > t.step+t.mean/10 && t.last > t.first
}

func (t trend) perHour() string { return fmt.Sprintf("%.0f ± %.0f", t.slope, t.error) }

// trendTable prints trends, with the mean of each resource.
func trendTable(all []trend) string {
	text := table.Numeric("resource", "mean", "per hour")
	for _, t := range all {
		text.Add(t.name, fmt.Sprintf("%.0f", t.mean), t.perHour())
	}
	return text.Text()
}
