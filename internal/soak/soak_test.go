package soak

import (
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/internal/pgtest"
)

func TestMain(m *testing.M) {
	code := pgtest.Run(m)
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		code = 1
	}
	os.Exit(code)
}

// ample never refuses a call of these tests.
var ample = brim.Limit{Capacity: 1e7, LeakRate: 1e7}

// TestHour runs an hour of injected time, a minute a round. Buckets that have leaked empty are
// pruned while the callers go on.
func TestHour(t *testing.T) {
	if testing.Short() {
		t.Skip("-short leaves out the soak")
	}
	for _, c := range []struct {
		name  string
		open  opener
		calls int // in a round
		why   string
	}{
		{"memory", inMemory, 2000, "an empty bucket leaves nothing behind"},
		{"wrapped", wrapped, 6000, "wrappers remember a bounded number of buckets, and allotments end"},
		{"bolt", inFile, 500, "the file uses the pages of pruned buckets again"},
		{"relaxed bolt", inRelaxedFile, 600, "the window of unwritten changes is bounded, too"},
	} {
		t.Run(c.name, func(t *testing.T) {
			soak(t, c.open, plan{
				why: c.why, rounds: 60, round: time.Minute, calls: c.calls, keys: 3000, pace: 500,
				limit: brim.Limit{Capacity: 100, LeakRate: 1},
				// Leaks half of the units that the callers ask for.
				scarce: brim.Limit{Capacity: 100, LeakRate: float64(c.calls) * hotShare / 2 / 60},
			})
		})
	}
}

// TestMinute runs a minute of real time at full load.
func TestMinute(t *testing.T) {
	if os.Getenv("BRIM_TORTURE") != "1" {
		t.Log("BRIM_TORTURE=1 adds a minute of real time for each of memory, wrappers, bolt and PostgreSQL")
		return
	}
	for _, c := range []struct {
		name string
		open opener
		why  string
	}{
		{"memory", inMemory, "an empty bucket leaves nothing behind"},
		{"wrapped", wrapped, "wrappers remember a bounded number of buckets, and allotments end"},
		{"bolt", inFile, "the file uses the pages of pruned buckets again"},
		{"relaxed bolt", inRelaxedFile, "the window of unwritten changes is bounded, too"},
		{"postgres", inPostgres, "a vacuumed table puts new rows where the pruned rows were"},
	} {
		t.Run(c.name, func(t *testing.T) {
			soak(t, c.open, plan{
				why: c.why, rounds: 60, round: time.Second, keys: 3000, pace: 500, real: true,
				limit:  brim.Limit{Capacity: 100, LeakRate: 100},
				scarce: brim.Limit{Capacity: 1000, LeakRate: 100},
			})
		})
	}
}

// plan tells how to soak a store.
type plan struct {
	why    string
	rounds int
	round  time.Duration
	calls  int        // in a round; unused in real time, where the callers make as many as they can
	keys   int        // in use at once
	pace   int        // number of keys that new keys replace in each round
	limit  brim.Limit // of a tenant's bucket
	scarce brim.Limit // of a bucket that everybody wants and that refuses many
	real   bool       // real time passes; otherwise, the calls drive an injected clock
}

// sample holds the resources that a store takes.
type sample struct {
	Heap, Disk int64 // bytes
	Goroutines int
}

// After the warm-up, which is the first third of the rounds, resources may grow by this share
// from the second third to the last, because they depend on the keys that were drawn. A garbage
// collector works in steps, and a file grows in steps: one step is allowed in addition.
const (
	growth   = 0.25
	heapStep = 1 << 17
)

// soak runs the plan. It compares the peaks in the second third of the rounds with those in the
// last.
func soak(t *testing.T, open opener, p plan) {
	before := goleak.IgnoreCurrent()
	// The first clean-up to be registered runs last, after the pool was closed.
	t.Cleanup(func() { goleak.VerifyNone(t, before) })
	w := newWork(p)
	s := open(t, w)
	w.use(s)
	samples := make([]sample, 0, p.rounds)
	for round := range p.rounds {
		w.run(t, round)
		if t.Failed() {
			return
		}
		samples = append(samples, take(t, s))
	}
	w.check(t)
	second, last := most(samples[p.rounds/3:2*p.rounds/3]), most(samples[2*p.rounds/3:])
	for _, c := range []struct {
		resource     string
		second, last int64
		step         int64
	}{
		{"bytes of memory", second.Heap, last.Heap, heapStep},
		{"bytes on disk", second.Disk, last.Disk, s.step},
		{"goroutines between rounds", int64(second.Goroutines), int64(last.Goroutines), 2},
	} {
		if float64(c.last) > (1+growth)*float64(c.second)+float64(c.step) {
			t.Errorf("%s: the peak was %d in the second third and %d in the last; want no growth\nwhy: %s",
				c.resource, c.second, c.last, p.why)
		}
	}
	t.Logf("%d calls, %d pruned; second third %+v, last third %+v", w.calls.Load(), w.pruned.Load(), second, last)
	t.Logf("the scarce bucket admitted %.3f of its bound; allotments served %d of %d calls on the ample bucket",
		w.shareOfBound(), w.leased.Load(), w.asked.Load())
	if err := s.store.Close(); err != nil {
		t.Error(err)
	}
}

// take measures a store between two rounds, while no call is in flight.
func take(t *testing.T, s *subject) sample {
	t.Helper()
	runtime.GC()
	runtime.GC() // the second run frees the values that had finalizers
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return sample{Heap: int64(m.HeapAlloc), Disk: s.disk(t), Goroutines: runtime.NumGoroutine()}
}

func most(samples []sample) (m sample) {
	for _, s := range samples {
		m.Heap, m.Disk, m.Goroutines = max(m.Heap, s.Heap), max(m.Disk, s.Disk), max(m.Goroutines, s.Goroutines)
	}
	return m
}
