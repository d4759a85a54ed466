package local

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/brimgo/brim/memory"
	"github.com/brimgo/brim/store"
)

// tick is the step of all times. It is a whole number of microseconds and a second has 64 ticks,
// so that at rates that are multiples of 64 each leak is a whole number of units.
const tick = time.Second / 64

// world holds several processes over one store, and the true time.
type world struct {
	t     *testing.T
	r     *rand.Rand
	now   time.Duration // true time
	inner store.Store
	limit store.Limit
	hosts []*host
	share float64
	lossy bool // answers get lost

	served         float64 // the W of the proof: the level of a bucket without a capacity, which takes all served units
	servedAt       time.Duration
	worst          float64 // the greatest excess of served over the capacity
	decisions      int
	fromAllotments int
}

// host is a machine with one process.
type host struct {
	w    *world
	s    *leases
	mono time.Duration // how far the monotonic clock is behind true time, because of suspends
	wall time.Duration // how far the wall clock is ahead of true time, because it was set
	// sleeps marks a machine that is suspended now and then. Its wall clock is never set back:
	// after a step back while the process has an allotment, neither clock would show the length
	// of the suspension.
	sleeps bool
	reads  int // readings of the clocks in the current call
}

var epoch = time.Unix(1_767_225_600, 0)

func newWorld(t *testing.T, seed uint64, limit store.Limit) *world {
	w := &world{t: t, r: rand.New(rand.NewPCG(seed, 4)), limit: limit, share: 0.9, lossy: true, worst: -limit.Capacity}
	w.inner = memory.New(&memory.Options{Clock: func() time.Time { return epoch.Add(w.now) }})
	return w
}

// Fill carries a question to the store and the answer back. Both take time.
func (w *world) Fill(ctx context.Context, op store.Op) (store.State, error) {
	w.wait()
	st, err := w.inner.Fill(ctx, op)
	w.wait()
	if w.lossy && w.r.IntN(100) == 0 {
		return store.State{}, store.ErrUnknownOutcome // the fill went in and its answer is lost
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

// boot starts a process on a machine with random clocks.
func (w *world) boot() *host {
	h := &host{
		w: w, mono: time.Duration(w.r.IntN(1000)) * tick, wall: time.Duration(w.r.IntN(100000)-50000) * tick,
		sleeps: w.r.IntN(2) == 0,
	}
	s, err := Leases(inWorld{w.inner, w}, &LeasesOptions{Share: w.share, Ahead: 250 * time.Millisecond})
	if err != nil {
		w.t.Fatal(err)
	}
	h.s = s.(*leases)
	h.s.now = func() instant {
		h.reads++
		return instant{mono: int64(w.now - h.mono), wall: int64(w.now + h.wall)}
	}
	return h
}

// serve records that n units were served at that true time, and updates the worst excess of all
// windows that end then.
func (w *world) serve(n float64, at time.Duration) {
	w.served = max(0, w.served-w.limit.LeakRate*float64((at-w.servedAt)/tick)/64) + n
	w.servedAt = at
	w.worst = max(w.worst, w.served-w.limit.Capacity)
}

func (w *world) try(h *host, n float64) {
	w.decisions++
	before := w.now
	h.reads = 0
	st, err := h.s.Fill(context.Background(), store.Op{Bucket: w.limit.For("k"), Amount: n})
	h.s.requests.Wait()
	if err != nil || !st.Accepted {
		return
	}
	at := st.At.Sub(epoch)
	if st.Estimate {
		w.fromAllotments++
		at = w.now
		if h.reads <= 3 { // served at the first reading; a prefetch makes two more readings later
			at = before
		}
	}
	w.serve(n, max(at, w.servedAt))
}

// step makes one random event happen.
func (w *world) step() {
	i := w.r.IntN(len(w.hosts))
	h := w.hosts[i]
	switch w.r.IntN(40) {
	case 0: // a crash: the process loses its allotments
		w.hosts[i] = w.boot()
	case 1: // a suspend: the monotonic clock stands still
		d := time.Duration(w.r.IntN(200)) * tick
		w.now += d
		if h.sleeps {
			h.mono += d
		}
	case 2: // the wall clock is set
		d := time.Duration(w.r.IntN(400)-200) * tick
		if h.sleeps {
			d = d.Abs()
		}
		h.wall += d
	case 3: // all processes idle
		w.now += time.Duration(w.r.IntN(500)) * tick
	case 4: // a program without leases takes all the room that there is
		for n := w.limit.Capacity / 4; n >= 1; {
			st, err := w.inner.Fill(context.Background(), store.Op{Bucket: w.limit.For("k"), Amount: n})
			if err != nil {
				w.t.Fatal(err)
			}
			if !st.Accepted {
				n /= 2
				continue
			}
			w.serve(n, w.now)
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

// TestModel runs many processes on one bucket, with crashes, lost answers, idle times, suspended
// machines and clocks that are set. In every window, all processes together may serve at most the
// capacity and the leak in that window, as the bucket alone would. All numbers are whole, so the
// comparison is exact.
func TestModel(t *testing.T) {
	seeds := uint64(60)
	if testing.Short() {
		seeds = 24 // each capacity with each leak rate
	}
	decisions, fromAllotments := 0, 0
	for seed := range seeds {
		limit := store.Limit{Capacity: float64(int(64) << (seed % 8)), LeakRate: float64(int(64) << (seed % 6))}
		w := newWorld(t, seed, limit)
		w.run(400)
		decisions += w.decisions
		fromAllotments += w.fromAllotments
		if w.worst > 0 {
			t.Errorf("seed %d, %+v: %v units too many in some window\n"+
				"why: the unused units of allotments never exceed the units that the bucket holds for them",
				seed, limit, w.worst)
		}
	}
	t.Logf("%d decisions, %d from allotments", decisions, fromAllotments)
	if fromAllotments < decisions/10 {
		t.Errorf("%d of %d decisions came from allotments, want a tenth at least", fromAllotments, decisions)
	}
}

// TestWastesNoMoreThanItsShare compares one process, and several, with a bucket of the capacity
// that the share leaves: that bucket must refuse each call that the processes refuse.
func TestWastesNoMoreThanItsShare(t *testing.T) {
	for _, processes := range []int{1, 5} {
		t.Run(fmt.Sprint(processes, " processes"), func(t *testing.T) {
			limit := store.Limit{Capacity: 1024, LeakRate: 256}
			w := newWorld(t, 1, limit)
			w.share, w.lossy = 0.5, false // a lost answer would count as a refusal, with leases or without
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
				if w.served == level && w.now == from { // refused at the time of the question
					refused++
					if level+4 <= limit.Capacity/2 {
						t.Fatalf("4 units refused while %v of %v are in use", level, limit.Capacity)
					}
				}
			}
			if refused == 0 || w.fromAllotments == 0 {
				t.Errorf("%d refused, %d served from allotments; want some of each", refused, w.fromAllotments)
			}
		})
	}
}
