package from

import (
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/failsafe-go/failsafe-go/ratelimiter"
	"github.com/juju/ratelimit"
	uber "go.uber.org/ratelimit"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/memory"
)

// reserving returns a function that reserves n units of a Shaper and returns the wait.
func reserving(t *testing.T, limit brim.Limit, burst float64) func(n int) (wait time.Duration, ok bool) {
	t.Helper()
	turns, err := brim.NewShaper(brim.New(memory.New(nil), nil), &brim.ShaperOptions{Burst: burst})
	if err != nil {
		t.Fatal(err)
	}
	return func(n int) (time.Duration, bool) {
		r, err := turns.Reserve(t.Context(), limit.For("k"), float64(n))
		if err != nil {
			t.Fatal(err)
		}
		return r.Delay(), r.State.Accepted
	}
}

// TestJuju takes tokens of a bucket that fills in ticks of a millisecond, beside a Shaper with its
// capacity as the burst. The answers differ by a tick.
func TestJuju(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const capacity, perSecond, maxWait, tick = 50, 1000, 30 * time.Millisecond, time.Millisecond
		peer := ratelimit.NewBucketWithRate(perSecond, capacity)
		reserve := reserving(t, brim.Limit{Capacity: capacity + perSecond*maxWait.Seconds(), LeakRate: perSecond}, capacity)
		rng := rand.New(rand.NewPCG(1, 1))
		refused := 0
		for i := range 2_000 {
			n := 1 + rng.IntN(capacity)
			want, fits := peer.TakeMaxDuration(int64(n), maxWait)
			got, ok := reserve(n)
			if fits != ok || ok && (got-want).Abs() > tick {
				t.Fatalf("call %d, %d units: juju waits %v, %v, and brim %v, %v", i, n, want, fits, got, ok)
			}
			if !ok {
				refused++
			}
			time.Sleep(time.Duration(rng.IntN(50)) * tick) // the two agree at the ticks
		}
		if refused == 0 || refused == 2_000 {
			t.Errorf("%d of 2,000 are refused; want some", refused)
		}
	})
}

// TestJujuTakesWhatIsThere takes part.
func TestJujuTakesWhatIsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		peer, limiter := ratelimit.NewBucketWithRate(1000, 50), brim.New(memory.New(nil), nil)
		rng := rand.New(rand.NewPCG(1, 1))
		for i := range 1_000 {
			n := 1 + rng.IntN(60)
			want := peer.TakeAvailable(int64(n))
			st, err := limiter.TakeUpTo(t.Context(), brim.Limit{Capacity: 50, LeakRate: 1000}.For("k"), 1, float64(n))
			if err != nil || st.Taken != float64(want) {
				t.Fatalf("call %d, up to %d: juju takes %d, and brim %v, %v", i, n, want, st.Taken, err)
			}
			time.Sleep(time.Duration(rng.IntN(50)) * time.Millisecond)
		}
	})
}

// TestUber has a caller take its turns, once by each library, with the same work in between. The
// slack of uber's limiter is full after an idle second.
func TestUber(t *testing.T) {
	const perSecond, slack = 100, 10
	turns := func(wait func(*testing.T)) (all []time.Duration) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, 1))
			wait(t)
			time.Sleep(time.Second)
			began := time.Now()
			for range 1_000 {
				wait(t)
				all = append(all, time.Since(began))
				time.Sleep(time.Duration(rng.IntN(20)) * time.Millisecond)
			}
		})
		return all
	}
	var peer uber.Limiter
	want := turns(func(*testing.T) {
		if peer == nil {
			peer = uber.New(perSecond, uber.WithSlack(slack))
		}
		peer.Take()
	})
	var shaper *brim.Shaper
	got := turns(func(t *testing.T) {
		if shaper == nil {
			shaper, _ = brim.NewShaper(brim.New(memory.New(nil), nil), &brim.ShaperOptions{Burst: slack + 1})
		}
		if _, err := shaper.Wait(t.Context(), brim.Limit{Capacity: slack + 1 + perSecond, LeakRate: perSecond}.For("k"), 1); err != nil {
			t.Error(err)
		}
	})
	if !slices.Equal(got, want) {
		t.Errorf("brim's turns are\n%v\nand uber's\n%v", got, want)
	}
}

// TestFailsafe reserves permits of a smooth limiter beside a Shaper. Its permits are those of
// intervals that begin with the limiter, so two may be closer than an interval. A Shaper's are an
// interval apart.
func TestFailsafe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const perSecond, interval = 10, 100 * time.Millisecond
		peer := ratelimiter.NewSmooth[any](perSecond, time.Second)
		reserve := reserving(t, brim.Smooth(perSecond, time.Hour), 0)
		rng := rand.New(rand.NewPCG(1, 1))
		began, closest, last := time.Now(), time.Hour, -time.Hour // the peer's
		turn := -time.Hour                                        // brim's
		for i := range 2_000 {
			want := peer.ReservePermit()
			got, ok := reserve(1)
			if !ok || got < want || got-want >= interval {
				t.Fatalf("call %d: failsafe waits %v, and brim %v, %v; want up to an interval more", i, want, got, ok)
			}
			now := time.Since(began)
			closest, last = min(closest, now+want-last), now+want
			if now+got-turn < interval-time.Nanosecond {
				t.Errorf("call %d: a turn of brim is %v after the one before", i, now+got-turn)
			}
			turn = now + got
			time.Sleep(time.Duration(rng.IntN(200)) * time.Millisecond)
		}
		if closest >= interval {
			t.Errorf("permits of failsafe are %v apart at least; the page says that they come closer than %v", closest, interval)
		}
	})
}
