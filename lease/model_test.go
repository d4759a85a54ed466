package lease

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/brimgo/brim/memory"
	"github.com/brimgo/brim/store"
)

// tick divides a second into a power of two and is whole in microseconds: with rates that are multiples of 64, every leak is a
// whole number of units.
const tick = time.Second / 64

// world is several processes over one store, on one true time.
type world struct {
	t     *testing.T
	r     *rand.Rand
	now   time.Duration // true time
	inner store.Store
	limit store.Limit
	hosts []*host
	slow  int64 // machines' clocks run this many times too slow; 1 is right
	share float64
	lossy bool // answers get lost

	served     float64 // what has been let in, as a bucket without a rim that leaks: the W of the proof
	servedAt   time.Duration
	worst      float64
	decisions  int
	fromSlices int
}

// host is a machine with one process.
type host struct {
	w    *world
	s    *Store
	mono time.Duration // less than true time by what it was suspended
	wall time.Duration // ahead of true time by what its clock was set
	// Sleeps is a machine that is suspended now and then. Its clock is never set back: if it were, within a slice, neither
	// clock would show how long it slept.
	sleeps bool
	reads  int // of the clocks, in a call
}

var epoch = time.Unix(1_767_225_600, 0)

func newWorld(t *testing.T, seed uint64, limit store.Limit, slow int64) *world {
	w := &world{t: t, r: rand.New(rand.NewPCG(seed, 4)), limit: limit, slow: slow, share: 0.9, lossy: true, worst: -limit.Capacity}
	m, err := memory.New(&memory.Options{Clock: func() time.Time { return epoch.Add(w.now) }})
	if err != nil {
		t.Fatal(err)
	}
	w.inner = m
	return w
}

// Fill is what the processes' stores see: questions and answers take time on their way.
func (w *world) Fill(ctx context.Context, op store.Op) (store.State, error) {
	w.wait()
	st, err := w.inner.Fill(ctx, op)
	w.wait()
	if w.lossy && w.r.IntN(100) == 0 {
		return store.State{}, store.ErrUnknownOutcome // it went in, but nobody learns of it
	}
	return st, err
}

func (w *world) wait() {
	if w.r.IntN(4) == 0 {
		w.now += time.Duration(w.r.IntN(3)) * tick
	}
}

type inWorld struct {
	store.Store
	w *world
}

func (s inWorld) Fill(ctx context.Context, op store.Op) (store.State, error) {
	return s.w.Fill(ctx, op)
}

// boot starts a process, on a machine whose clocks show what they like.
func (w *world) boot() *host {
	h := &host{w: w, mono: time.Duration(w.r.IntN(1000)) * tick, wall: time.Duration(w.r.IntN(100000)-50000) * tick, sleeps: w.r.IntN(2) == 0}
	s, err := New(inWorld{w.inner, w}, &Options{Share: w.share, Ahead: 250 * time.Millisecond})
	if err != nil {
		w.t.Fatal(err)
	}
	s.read = func() instant {
		h.reads++
		now := int64(w.now) / w.slow
		return instant{mono: now - int64(h.mono), wall: now + int64(h.wall)}
	}
	h.s = s
	return h
}

// let notes that n units were let in at that true time, and checks the bound for every window that ends there.
func (w *world) let(n float64, at time.Duration) {
	w.served = max(0, w.served-w.limit.LeakRate*float64((at-w.servedAt)/tick)/64) + n
	w.servedAt = at
	w.worst = max(w.worst, w.served-w.limit.Capacity)
}

func (w *world) try(h *host, n float64) {
	w.decisions++
	before := w.now
	h.reads = 0
	st, err := h.s.Fill(context.Background(), store.Op{Bucket: w.limit.For("k"), Amount: n})
	h.s.tasks.Wait()
	if err != nil || !st.Accepted {
		return
	}
	at := st.At.Sub(epoch)
	if st.Estimate {
		w.fromSlices++
		at = w.now
		if h.reads <= 3 { // served at the first reading; a slice that was fetched for later, with two, took its time
			at = before
		}
	}
	w.let(n, max(at, w.servedAt))
}

// step is one thing that happens.
func (w *world) step() {
	i := w.r.IntN(len(w.hosts))
	h := w.hosts[i]
	switch w.r.IntN(40) {
	case 0: // a crash: what it had is lost
		w.hosts[i] = w.boot()
	case 1: // suspended: the monotonic clock stands still
		d := time.Duration(w.r.IntN(200)) * tick
		w.now += d
		if h.sleeps {
			h.mono += d / time.Duration(w.slow)
		}
	case 2: // the wall clock is set
		d := time.Duration(w.r.IntN(400)-200) * tick
		if h.sleeps {
			d = d.Abs()
		}
		h.wall += d
	case 3: // everybody idles
		w.now += time.Duration(w.r.IntN(500)) * tick
	case 4: // somebody who has no leases takes all there is
		for n := w.limit.Capacity / 4; n >= 1; {
			st, err := w.inner.Fill(context.Background(), store.Op{Bucket: w.limit.For("k"), Amount: n})
			if err != nil {
				w.t.Fatal(err)
			}
			if !st.Accepted {
				n /= 2
				continue
			}
			w.let(n, w.now)
		}
	case 5, 6, 7:
		w.now += time.Duration(w.r.IntN(4)) * tick
	default:
		for range 1 + w.r.IntN(60) {
			w.try(h, float64(1+w.r.IntN(3)))
		}
		w.now += time.Duration(w.r.IntN(2)) * tick
	}
}

func (w *world) run(steps int) {
	for range 1 + w.r.IntN(5) {
		w.hosts = append(w.hosts, w.boot())
	}
	for range steps {
		w.step()
	}
}

// TestModel lets many processes at one bucket, with crashes, lost answers, idle times, suspended machines and clocks that
// are set, and sees that what they let in, all together, is what the bucket alone would have: in every window at most the
// capacity and what leaks in it. The numbers are whole, so the comparison is exact.
func TestModel(t *testing.T) {
	decisions, fromSlices := 0, 0
	for seed := range uint64(60) {
		limit := store.Limit{Capacity: float64(int(64) << (seed % 8)), LeakRate: float64(int(64) << (seed % 6))}
		w := newWorld(t, seed, limit, 1)
		w.run(400)
		decisions += w.decisions
		fromSlices += w.fromSlices
		if w.worst > 0 {
			t.Errorf("seed %d, %+v: %v units too many in some window\nwhy: what is served from slices is never more than what is in the bucket on their account", seed, limit, w.worst)
		}
	}
	t.Logf("%d decisions, %d from slices", decisions, fromSlices)
	if fromSlices < decisions/10 {
		t.Errorf("only %d of %d decisions came from slices: that proves little", fromSlices, decisions)
	}
}

// TestModelSees has the same with clocks that do not show the time: then the bound must break, or the model sees nothing.
func TestModelSees(t *testing.T) {
	broken := 0
	for seed := range uint64(20) {
		w := newWorld(t, seed, store.Limit{Capacity: 1024, LeakRate: 256}, 4)
		w.run(400)
		if w.worst > 0 {
			broken++
		}
	}
	if broken == 0 {
		t.Error("slices that do not leak break no bound: the model sees nothing")
	}
}

// TestRefusesNoMoreThanItsShare drives one process and many, and compares with a bucket of what the share leaves.
func TestRefusesNoMoreThanItsShare(t *testing.T) {
	for _, processes := range []int{1, 5} {
		t.Run(fmt.Sprint(processes, " processes"), func(t *testing.T) {
			limit := store.Limit{Capacity: 1024, LeakRate: 256}
			w := newWorld(t, 1, limit, 1)
			w.share, w.lossy = 0.5, false // what went in and was not told counts as refused, with or without leases
			for range processes {
				w.hosts = append(w.hosts, w.boot())
			}
			refused := 0
			for range 20_000 {
				switch w.r.IntN(600) {
				case 0:
					w.now += 400 * tick
				default:
					w.now += time.Duration(w.r.IntN(8)/7) * tick
				}
				h := w.hosts[w.r.IntN(processes)]
				before := w.served
				at := w.servedAt
				w.servedAt, w.served = w.now, max(0, before-limit.LeakRate*float64((w.now-at)/tick)/64)
				level := w.served
				from := w.now
				w.try(h, 4)
				if w.served == level && w.now == from { // refused, and no time passed that would make it another question
					refused++
					if level+4 <= limit.Capacity/2 {
						t.Fatalf("refused, but of %v only %v are in use", limit.Capacity, level)
					}
				}
			}
			if refused == 0 || w.fromSlices == 0 {
				t.Errorf("%d refused, %d from slices: that proves little", refused, w.fromSlices)
			}
		})
	}
}
