package brim_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/store"
)

// tat is the generic cell rate algorithm as ITU-T I.371 has it: the theoretical arrival time, in nanoseconds.
type tat struct {
	next                int64
	interval, tolerance int64
}

func (g *tat) conforms(now int64) bool {
	if now < g.next-g.tolerance {
		return false
	}
	g.next = max(now, g.next) + g.interval
	return true
}

// The bucket and the reference agree on 10^5 random traces, with as many arrivals as possible exactly at, or a microsecond off,
// the earliest time allowed.
func TestGCRA(t *testing.T) {
	const traces = 100_000
	rng := rand.New(rand.NewPCG(4, 4))
	ties, cells := 0, 0
	lost := 0 // ties that would be refused without the half nanosecond
	for trace := range traces {
		scale := math.Pow(10, 3+9*rng.Float64()) // from a microsecond to a quarter of an hour
		interval, tolerance := int64(1+scale*rng.Float64()), int64(scale*10*rng.Float64())
		if rng.IntN(2) == 0 { // whole microseconds, so that arrivals can be exactly in time
			interval, tolerance = (interval/1000+1)*1000, tolerance/1000*1000
		}
		limit, cost := brim.GCRA(time.Duration(interval), time.Duration(tolerance))
		reference := tat{interval: interval, tolerance: tolerance}
		now := start.UnixMicro()
		rec, bare := store.NewRecord(now), store.NewRecord(now)
		op := store.Op{Bucket: limit.For("k"), Amount: cost}
		for range 30 {
			us := now * 1000
			tie := us == reference.next-tolerance
			want := reference.conforms(us)
			st, _, err := rec.Fill(&op, now, store.DefaultMaxSkew)
			if err != nil || st.Accepted != want {
				t.Fatalf("trace %d: interval %d ns, tolerance %d ns: accepted %v, %v; the reference says %v (a tie: %v)", trace, interval, tolerance, st.Accepted, err, want, tie)
			}
			whole := op
			whole.Capacity -= 0.5
			if got, _, _ := bare.Fill(&whole, now, store.DefaultMaxSkew); got.Accepted != want {
				lost++
			}
			cells++
			if tie {
				ties++
			}
			// Next: somewhere, or at the earliest time allowed, or a microsecond off.
			earliest := (reference.next - tolerance + 999) / 1000
			switch rng.IntN(4) {
			case 0:
				now += int64(float64(interval) / 1000 * 2 * rng.Float64())
			case 1:
				now = max(now, earliest)
			case 2:
				now = max(now, earliest-1)
			default:
				now = max(now, earliest+1)
			}
		}
	}
	if ties < cells/20 {
		t.Errorf("%d ties in %d cells: too few to say that ties are right", ties, cells)
	}
	if lost == 0 {
		t.Error("whole nanoseconds would do without the half on top: then it should go")
	}
}

func TestGCRALimits(t *testing.T) {
	limit, cost := brim.GCRA(20*time.Millisecond, 200*time.Millisecond)
	if limit != (brim.Limit{Capacity: 220e6 + 0.5, LeakRate: 1e9}) || cost != 20e6 {
		t.Errorf("got %+v, %v", limit, cost)
	}
	for _, tc := range []struct {
		interval, tolerance time.Duration
		valid               bool
	}{
		{1, 0, true},
		{1<<52 - 1, 0, true},
		{1, 1<<52 - 2, true},
		{1, 1<<52 - 1, false},
		{1 << 52, 0, false},
		{math.MaxInt64, math.MaxInt64, false},
		{0, time.Second, false},
		{-1, time.Second, false},
		{time.Second, -1, false},
	} {
		limit, cost := brim.GCRA(tc.interval, tc.tolerance)
		l, _, _ := open(t, nil)
		st, err := l.TryFillup(t.Context(), limit.For("k"), cost)
		if tc.valid && (err != nil || !st.Accepted) || !tc.valid && !errors.Is(err, brim.ErrInvalidLimit) {
			t.Errorf("interval %v, tolerance %v: %+v, %v; want valid %v", tc.interval, tc.tolerance, st, err, tc.valid)
		}
	}
}
