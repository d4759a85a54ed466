package brim_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/internal/seed"
	"github.com/brimgo/brim/store"
)

// reference is the generic cell rate algorithm of ITU-T I.371, in integers.
type reference struct {
	next                int64 // theoretical arrival time, nanoseconds
	interval, tolerance int64 // nanoseconds
}

func (g *reference) conforms(now int64) bool {
	if now < g.next-g.tolerance {
		return false
	}
	g.next = max(now, g.next) + g.interval
	return true
}

// TestGCRA compares the bucket with the reference on random traces. Many arrivals are
// exactly at the earliest permitted time, or a microsecond off.
func TestGCRA(t *testing.T) {
	traces := seed.Attempts(20_000, 1_000_000)
	rng := rand.New(rand.NewPCG(4, 4))
	ties, cells := 0, 0
	lost := 0 // cells decided wrongly without the half nanosecond
	for trace := range traces {
		scale := math.Pow(10, 3+9*rng.Float64()) // from a microsecond to a quarter of an hour
		interval, tolerance := int64(1+scale*rng.Float64()), int64(scale*10*rng.Float64())
		if rng.IntN(2) == 0 { // whole microseconds, so that ties can happen
			interval, tolerance = (interval/1000+1)*1000, tolerance/1000*1000
		}
		limit, cost := brim.GCRA(time.Duration(interval), time.Duration(tolerance))
		model := reference{interval: interval, tolerance: tolerance}
		now := start.UnixMicro()
		rec, bare := store.NewRecord(now), store.NewRecord(now)
		op := store.Op{Bucket: limit.For("k"), Amount: cost}
		for range 30 {
			us := now * 1000
			tie := us == model.next-tolerance
			want := model.conforms(us)
			st, _, err := rec.Fill(&op, now, store.DefaultMaxSkew)
			if err != nil || st.Accepted != want {
				t.Fatalf("trace %d: interval %d ns, tolerance %d ns: accepted %v, %v; want %v as in I.371 (tie: %v)",
					trace, interval, tolerance, st.Accepted, err, want, tie)
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
			// The next cell comes at a random time, at the earliest permitted time, or a
			// microsecond off.
			earliest := (model.next - tolerance + 999) / 1000
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
		t.Errorf("%d ties in %d cells; want at least one in twenty", ties, cells)
	}
	if lost == 0 {
		t.Error("without the half nanosecond, every cell was decided correctly; remove the half")
	}
}

func TestGCRALimits(t *testing.T) {
	limit, cost := brim.GCRA(20*time.Millisecond, 200*time.Millisecond)
	if limit != (brim.Limit{Capacity: 220e6 + 0.5, LeakRate: 1e9}) || cost != 20e6 {
		t.Errorf("got %+v, %v", limit, cost)
	}
	for _, test := range []struct {
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
		limit, cost := brim.GCRA(test.interval, test.tolerance)
		l, _, _ := open(t, nil)
		st, err := l.TryFillup(t.Context(), limit.For("k"), cost)
		if test.valid && (err != nil || !st.Accepted) || !test.valid && !errors.Is(err, brim.ErrInvalidLimit) {
			t.Errorf("interval %v, tolerance %v: %+v, %v; want valid %v",
				test.interval, test.tolerance, st, err, test.valid)
		}
	}
}

func TestSmooth(t *testing.T) {
	if l := brim.Smooth(5, 2*time.Second); l != (brim.Limit{Capacity: 10, LeakRate: 5}) || l.MaxWait() != 2*time.Second {
		t.Errorf("got %+v, MaxWait %v", l, l.MaxWait())
	}
	if d := (brim.Limit{Capacity: 1}).MaxWait(); d != brim.Never {
		t.Errorf("MaxWait of a bucket that does not leak is %v; want Never", d)
	}
	for _, l := range []brim.Limit{
		brim.Smooth(0, time.Second), brim.Smooth(1, 0), brim.Smooth(-1, -time.Second), brim.Smooth(math.NaN(), time.Second),
	} {
		if err := l.Validate(); !errors.Is(err, brim.ErrInvalidLimit) {
			t.Errorf("%+v is valid; want ErrInvalidLimit", l)
		}
	}
}
