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

// An hour of injected time, a minute a round: what has leaked empty is pruned while the callers go on.
func TestHour(t *testing.T) {
	for _, c := range []struct {
		name  string
		open  opener
		calls int // in a round
		why   string
	}{
		{name: "memory", open: inMemory, calls: 2000, why: "buckets that are empty leave nothing behind"},
		{name: "wrapped", open: wrapped, calls: 3000, why: "what wrappers remember is bounded, and slices end"},
		{name: "bolt", open: inFile, calls: 500, why: "pages of pruned buckets are used again"},
		{name: "relaxed bolt", open: inRelaxedFile, calls: 600, why: "what waits to be written is bounded, too"},
	} {
		t.Run(c.name, func(t *testing.T) {
			soak(t, c.open, plan{
				why: c.why, rounds: 60, round: time.Minute, calls: c.calls, keys: 3000, pace: 500,
				// The hot bucket has room for half of those who want it.
				limit: brim.Limit{Capacity: 100, LeakRate: 1},
				hot:   brim.Limit{Capacity: 100, LeakRate: float64(c.calls) / hotShare / 2 / 60},
			})
		})
	}
}

// A minute of real time, as fast as it goes.
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
		{"memory", inMemory, "buckets that are empty leave nothing behind"},
		{"wrapped", wrapped, "what wrappers remember is bounded, and slices end"},
		{"bolt", inFile, "pages of pruned buckets are used again"},
		{"relaxed bolt", inRelaxedFile, "what waits to be written is bounded, too"},
		{"postgres", inPostgres, "a vacuumed table has room for new rows where the pruned ones were"},
	} {
		t.Run(c.name, func(t *testing.T) {
			soak(t, c.open, plan{
				why: c.why, rounds: 60, round: time.Second, keys: 3000, pace: 500, real: true,
				limit: brim.Limit{Capacity: 100, LeakRate: 100},
				hot:   brim.Limit{Capacity: 1000, LeakRate: 100},
			})
		})
	}
}

// plan is how to soak.
type plan struct {
	why        string
	rounds     int
	round      time.Duration
	calls      int        // in a round; as many as the time is enough for, where it is real
	keys       int        // in use at once
	pace       int        // keys that go out of use in a round, and as many new ones come
	limit, hot brim.Limit // of the bucket that everybody wants
	real       bool       // time is not injected
}

// sample is what a store takes.
type sample struct {
	Heap, Disk int64 // bytes
	Goroutines int
}

// What is taken after the warm-up, a third of the rounds, may differ from one third to the next by this share. It depends on
// which keys were drawn, and a collector or a file works in steps, which come on top.
const (
	growth   = 0.25
	heapStep = 1 << 17
)

// soak runs the plan, and compares the most that was taken in the second third of the rounds with the most in the last.
func soak(t *testing.T, open opener, p plan) {
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) }) // first, so it comes after the pool was closed
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
		what         string
		second, last int64
		step         int64
	}{
		{"bytes of memory", second.Heap, last.Heap, heapStep},
		{"bytes on disk", second.Disk, last.Disk, s.step},
		{"goroutines between rounds", int64(second.Goroutines), int64(last.Goroutines), 2},
	} {
		if float64(c.last) > (1+growth)*float64(c.second)+float64(c.step) {
			t.Errorf("%s: %d at most in the last third, %d in the one before; want no growth\nwhy: %s", c.what, c.last, c.second, p.why)
		}
	}
	t.Logf("%d calls, %d pruned; second third %+v, last third %+v; the hot bucket let in %.3f of what it may, %d units from slices",
		w.calls.Load(), w.pruned.Load(), second, last, w.hotShareOfBound(), w.leased.Load())
	if err := s.store.Close(); err != nil {
		t.Error(err)
	}
}

// take looks at a store between two rounds, when no call is in flight.
func take(t *testing.T, s *subject) sample {
	t.Helper()
	runtime.GC()
	runtime.GC() // what had a finalizer goes the second time
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
