package ui

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/brimtest"
	"github.com/brimgo/brim/internal/plot"
	"github.com/brimgo/brim/internal/seed"
	"github.com/brimgo/brim/memory"
	"github.com/brimgo/brim/observe"
	"github.com/brimgo/brim/store"
)

func newManual() *brimtest.Clock {
	return brimtest.NewClock(time.Date(2024, 2, 29, 23, 51, 0, 0, time.UTC))
}

// recorded returns a Limiter over an empty store in memory, its Recorder and its clock.
func recorded(t testing.TB, o *RecorderOptions) (*brim.Limiter, *Recorder, *brimtest.Clock) {
	t.Helper()
	clock := newManual()
	s := memory.New(&memory.Options{Clock: clock.Now})
	if o == nil {
		o = &RecorderOptions{}
	}
	o.Clock = clock.Now
	r, err := NewRecorder(o)
	if err != nil {
		t.Fatal(err)
	}
	w, err := r.Wrap(s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	return brim.New(w, nil), r, clock
}

// TestBusiestStay calls 20 keys often among many calls with keys that never come back.
func TestBusiestStay(t *testing.T) {
	calls := seed.Attempts(50_000, 2_000_000)
	lim, r, clock := recorded(t, &RecorderOptions{Keys: 256})
	one := brim.Limit{Capacity: 1}
	random := rand.New(rand.NewPCG(16, 3))
	for i := range calls {
		key := fmt.Sprint("once:", i)
		if i%2 == 0 {
			key = fmt.Sprint("often:", random.IntN(20))
		}
		if _, err := lim.TryFillup(t.Context(), one.For(key), 1); err != nil {
			t.Fatal(err)
		}
		if i%(calls/1000) == 0 {
			clock.Advance(time.Second) // so the counts are halved now and then
		}
	}
	o := r.overview()
	if len(o.keys) != 20 {
		t.Errorf("%d buckets with refusals are kept, want those 20 that are called often", len(o.keys))
	}
	for i, one := range o.keys {
		if one.key[:5] != "often" || one.all < uint32(calls/2/20/4) {
			t.Errorf("place %d of the busiest has %s with %d refusals", i, one.key, one.all)
		}
	}
}

func TestRecorderKeys(t *testing.T) {
	for keys, kept := range map[int]int{0: 1024, 1: 16, 16: 16, 17: 32, maxKeys: maxKeys} {
		if r, err := NewRecorder(&RecorderOptions{Keys: keys}); err != nil || len(r.sets)*ways != kept {
			t.Errorf("%d keys: a Recorder of %d, %v; want %d", keys, len(r.sets)*ways, err, kept)
		}
	}
	for _, keys := range []int{-1, maxKeys + 1} {
		if _, err := NewRecorder(&RecorderOptions{Keys: keys}); err == nil {
			t.Errorf("%d keys are allowed", keys)
		}
	}
	r, err := NewRecorder(nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Wrap(nil); err == nil {
		t.Error("no store is recorded")
	}
}

// TestNoAllocation counts the allocations of a call on one key, and on keys that replace others.
func TestNoAllocation(t *testing.T) {
	keys := make([]string, 1000)
	for i := range keys {
		keys[i] = fmt.Sprint("key:", i)
	}
	for name, some := range map[string][]string{"one": keys[:1], "many": keys} {
		_, r, clock := recorded(t, &RecorderOptions{Keys: 16})
		d := decision(0, clock.Now())
		i := 0
		call := func() {
			d.Key = some[i%len(some)]
			r.decided(t.Context(), d)
			i++
		}
		call()
		if n := testing.AllocsPerRun(1000, call); n != 0 {
			t.Errorf("%s: %v allocations in a call", name, n)
		}
	}
}

// TestLevels compares the curve with the level of a record at every tenth of a pixel: somewhere
// within a pixel to the left and to the right, the curve is within a pixel of the level.
func TestLevels(t *testing.T) {
	const height = 240.0 // of the plot in pixels; a pixel is a second wide
	for name, tc := range map[string]struct {
		limit  store.Limit
		wait   time.Duration // the mean between two calls
		amount float64       // the mean
	}{
		"seldom":         {store.Limit{Capacity: 100, LeakRate: 1}, 20 * time.Second, 15},
		"every second":   {store.Limit{Capacity: 100, LeakRate: 1}, time.Second, 3},
		"often":          {store.Limit{Capacity: 1000, LeakRate: 100}, 20 * time.Millisecond, 4},
		"leaks quickly":  {store.Limit{Capacity: 10, LeakRate: 50}, 300 * time.Millisecond, 4},
		"does not leak":  {store.Limit{Capacity: 1e6}, 2 * time.Second, 9000},
		"large amounts":  {store.Limit{Capacity: 1e15, LeakRate: 1e12}, 5 * time.Second, 2e13},
		"drained, too":   {store.Limit{Capacity: 50, LeakRate: 0.1}, time.Second, -3},
		"never accepted": {store.Limit{Capacity: 5, LeakRate: 1}, time.Second, 50},
	} {
		t.Run(name, func(t *testing.T) {
			random := rand.New(rand.NewPCG(7, uint64(len(name))))
			_, r, clock := recorded(t, nil)
			begin := clock.Now()
			type change struct {
				at     time.Time
				record store.Record
			}
			record := store.NewRecord(begin.UnixMicro())
			changes := []change{{begin, record}}
			for clock.Now().Sub(begin) < Window-30*time.Second {
				clock.Advance(time.Duration(random.ExpFloat64() * float64(tc.wait)).Truncate(time.Microsecond))
				op := store.Op{Bucket: tc.limit.For("k"), Amount: random.ExpFloat64() * math.Abs(tc.amount)}
				if tc.amount < 0 && random.IntN(2) == 0 {
					op.Amount, op.Mode = -op.Amount, store.Always
				}
				st, _, err := record.Fill(&op, clock.Now().UnixMicro(), store.DefaultMaxSkew)
				if err != nil {
					t.Fatal(err)
				}
				d := decision(op.Amount, clock.Now())
				d.Key, d.State, d.Accepted, d.Mode = op.Key, st, st.Accepted, op.Mode
				r.decided(t.Context(), d)
				changes = append(changes, change{clock.Now(), record})
			}
			clock.Advance(time.Second / 3)
			now := clock.Now()
			c, ok := r.course("k", now)
			if !ok {
				t.Fatal("the bucket is not kept")
			}
			start := now.Add(-Window)
			points := c.levels(start, now)
			at, worst := 0, 0.0
			for x := points[0].X + 0.05; x < slots; x += 0.1 {
				moment := start.Add(time.Duration(x * float64(time.Second)))
				for at+1 < len(changes) && !changes[at+1].at.After(moment) {
					at++
				}
				level := changes[at].record.LevelAt(moment.UnixMicro())
				low, high := extent(points, x-1, x+1)
				off := max(low-level, level-high, 0) / tc.limit.Capacity * height
				worst = max(worst, off)
			}
			if worst > 0.5 { // the picture itself may add half a pixel
				t.Errorf("the curve is %.2f pixels off the record", worst)
			}
		})
	}
}

// extent returns the lowest and the highest Y of a line from one X to another.
func extent(points []plot.Point, from, to float64) (low, high float64) {
	low, high = math.Inf(1), math.Inf(-1)
	add := func(y float64) { low, high = min(low, y), max(high, y) }
	for i, p := range points {
		if from <= p.X && p.X <= to {
			add(p.Y)
		}
		if i+1 == len(points) {
			break
		}
		for _, x := range []float64{from, to} {
			if q := points[i+1]; p.X < x && x < q.X {
				add(p.Y + (q.Y-p.Y)*(x-p.X)/(q.X-p.X))
			}
		}
	}
	return low, high
}

// decision returns an accepted decision on the bucket k.
func decision(amount float64, at time.Time) observe.Decision {
	return observe.Decision{
		Key: "k", Amount: amount, Accepted: true, State: store.State{Level: amount, Capacity: 10, LeakRate: 1, At: at},
	}
}

// TestRecorderMemory measures the memory of a Recorder after calls for many more buckets than it
// keeps.
func TestRecorderMemory(t *testing.T) {
	const kept = 256
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	r, err := NewRecorder(&RecorderOptions{Keys: kept})
	if err != nil {
		t.Fatal(err)
	}
	d := decision(1, newManual().Now())
	for i := range 100_000 {
		d.Key = fmt.Sprint("key:", i)
		r.decided(t.Context(), d)
	}
	per := float64(heap()-before) / kept / 1024
	runtime.KeepAlive(r)
	if per < 20 || per > 22.5 {
		t.Errorf("a bucket takes %.1f KiB, want 22 or a little more", per)
	}
}

// TestEarlyClock records calls of stores whose clock is before 1970, or far in the future.
func TestEarlyClock(t *testing.T) {
	for _, at := range []time.Time{time.Unix(-1000, 0), time.Unix(0, 0), {}, time.UnixMicro(1 << 55)} {
		r, err := NewRecorder(&RecorderOptions{Clock: func() time.Time { return at }})
		if err != nil {
			t.Fatal(err)
		}
		r.decided(t.Context(), decision(1, at))
		r.overview()
		if c, kept := r.course("k", at); !kept || len(c.levels(at.Add(-Window), at)) > 10 {
			t.Errorf("%v: the bucket is not kept", at)
		}
	}
}
