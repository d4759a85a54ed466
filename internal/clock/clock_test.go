package clock_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brimgo/brim/internal/clock"
	"github.com/brimgo/brim/internal/clock/clocktest"
)

const maxSkew = 5 * time.Minute

func TestClock(t *testing.T) {
	type step struct {
		set, pass time.Duration // the wall clock is set, and then time passes
		want      time.Duration // from the wall clock to the reading
	}
	const ms, minute, hour = time.Millisecond, time.Minute, time.Hour
	for _, c := range []struct {
		name, why string
		steps     []step
		log       string // "" or the direction and the distance of the only jump
	}{
		{
			"right", "both clocks run alike",
			[]step{{0, 0, 0}, {0, 1, 0}, {0, ms, 0}, {0, hour, 0}, {0, 1000 * hour, 0}},
			"",
		},
		{
			"suspended for a night", "a budget of a day must not end eight hours late",
			[]step{{0, hour, 0}, {8 * hour, ms, 0}, {0, hour, 0}},
			"direction=forward by=8h0m0s",
		},
		{
			"suspended for MaxSkew", "a jump within MaxSkew needs no line in the log",
			[]step{{0, hour, 0}, {maxSkew, ms, 0}, {0, hour, 0}},
			"",
		},
		{
			"set back", "the clock does not run back, and half of the time that passes catches up",
			[]step{
				{-minute, ms, minute}, // noticed, at the end of the millisecond
				{0, minute, minute / 2},
				{0, minute / 2, minute / 4},
				{0, minute/2 - 2, 1},
				{0, 2, 0},
				{0, hour, 0},
			},
			"",
		},
		{
			"set back by MaxSkew", "stored times up to MaxSkew ahead are believed, so the clock need not run back",
			[]step{{-maxSkew, ms, maxSkew}, {0, 2 * maxSkew, 0}},
			"",
		},
		{
			"set back by more", "a bucket would stand still for too long",
			[]step{{-maxSkew - time.Microsecond, ms, 0}, {0, hour, 0}},
			"direction=back by=5m0.000001s",
		},
		{
			"set back twice", "the distance of the moment counts, not the way to it",
			[]step{
				{-3 * minute, ms, 3 * minute},
				{0, 2 * minute, 2 * minute},
				{-2 * minute, ms, 4*minute - ms/2},
				{-2 * minute, ms, 0},
			},
			"direction=back by=5m59.999s",
		},
		{
			"set back and right again", "the wall clock is ahead of a clock that ran at half speed meanwhile",
			[]step{{-minute, ms, minute}, {0, minute, minute / 2}, {minute, ms, 0}, {0, hour, 0}},
			"",
		},
		{
			"set back and less so", "the clock stays ahead of the wall clock, by less",
			[]step{{-3 * minute, ms, 3 * minute}, {minute, ms, 2*minute - ms/2}, {0, 4 * minute, 0}},
			"",
		},
		{
			"within a millisecond", "the wall clock is not read more often",
			[]step{{hour, ms - 1, -hour}, {0, 1, 0}},
			"direction=forward by=1h0m0s",
		},
		{
			"by a nanosecond", "wall clocks are finer than the readings of the clock",
			[]step{{-1, ms, 1}, {0, 2, 0}, {1, ms, 0}},
			"",
		},
		{
			"over centuries", "the distance is longer than the longest Duration",
			[]step{{290 * 365 * 24 * hour, ms, 0}},
			"direction=forward by=2540400h0m0s",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, year := range []int{1900, 1969, 2026} {
				m := clocktest.New(t, time.Date(year, 12, 31, 23, 59, 59, 999_999_000, time.UTC))
				var log bytes.Buffer
				cl := clock.New(clock.Options{MaxSkew: maxSkew, Backend: "test", Logger: slog.New(slog.NewTextHandler(&log, nil))})
				for i, s := range c.steps {
					m.Set(s.set)
					m.Pass(s.pass)
					if got, want := cl.Now(), m.Wall().Add(s.want).UnixMicro(); got != want {
						t.Errorf("%d, step %d: the clock shows %v after the wall clock, want %v: %s", year, i,
							time.UnixMicro(got).Sub(m.Wall()), s.want, c.why)
					}
					if a, b := cl.Now(), cl.Now(); a != b {
						t.Errorf("%d, step %d: the clock moved by %d µs in no time", year, i, b-a)
					}
				}
				jumps := strings.Count(log.String(), "\n")
				if !strings.Contains(log.String(), c.log) || (c.log != "") != (jumps == 1) {
					t.Errorf("%d: the log has %q, want %q once", year, log.String(), c.log)
				}
			}
		})
	}
}

// TestRandomSteps: whatever becomes of both clocks, readings never decrease unless the wall clock
// was behind by more than MaxSkew, and a distance d is caught up after 2d.
func TestRandomSteps(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 28))
		m := clocktest.New(t, time.Unix(r.Int64N(8e9)-4e9, r.Int64N(1e9)))
		var log bytes.Buffer
		cl := clock.New(clock.Options{MaxSkew: maxSkew, Backend: "test", Logger: slog.New(slog.NewTextHandler(&log, nil))})
		random := func(most time.Duration) time.Duration { return time.Duration(r.Int64N(int64(most)) >> r.IntN(40)) }
		ahead := func() time.Duration { return time.UnixMicro(cl.Now()).Sub(m.Wall().Truncate(time.Microsecond)) }
		last, jumps := cl.Now(), 0
		for i := range 300 {
			before := ahead()
			step := random(2 * maxSkew)
			if r.IntN(2) == 0 {
				step = -step
			}
			m.Set(step)
			m.Pass(time.Millisecond + random(2*maxSkew))
			now, after := cl.Now(), ahead()
			// The wall clock is behind by this at the comparison. A microsecond is rounding.
			behind := before - step
			jumped := strings.Count(log.String(), "direction=back") - jumps
			jumps += jumped
			switch {
			case now < last && jumped == 0, jumped > 1:
				t.Fatalf("seed %d, step %d: the clock ran from %d to %d with %d lines in the log", seed, i, last, now, jumped)
			case jumped == 1 && behind <= maxSkew-time.Microsecond:
				t.Fatalf("seed %d, step %d: the clock jumped back while the wall clock was only %v behind", seed, i, behind)
			case after < 0:
				t.Fatalf("seed %d, step %d: the clock is %v behind the wall clock", seed, i, -after)
			case after > max(0, min(behind, maxSkew))+time.Microsecond:
				t.Fatalf("seed %d, step %d: the clock is ahead by %v; it was by %v", seed, i, after, behind)
			}
			last = now
			if r.IntN(4) == 0 {
				// In steps of any size, because each comparison begins a course of its own.
				for left := 2*after + 2*time.Microsecond; left > 0; {
					d := min(left, 1+random(maxSkew))
					m.Pass(d)
					left -= d
					now := cl.Now()
					if now < last {
						t.Fatalf("seed %d, step %d: the clock ran back from %d to %d", seed, i, last, now)
					}
					last = now
				}
				if after := ahead(); after != 0 {
					t.Fatalf("seed %d, step %d: the clock is ahead by %v; it had twice the time to catch up", seed, i, after)
				}
			}
		}
	}
}

// TestStandsStill: the goroutine may stand still between its readings of the two clocks. Then the
// readings say little about the distance of the clocks, and must not look like a clock that was
// set.
func TestStandsStill(t *testing.T) {
	const tick = 2 * time.Millisecond
	for _, stall := range []struct{ inNew, atWall bool }{{true, true}, {true, false}, {false, true}, {false, false}} {
		for reading := range 4 { // Now makes up to four readings of the monotonic clock
			m := clocktest.New(t, time.Unix(1e9, 0))
			var stands func(wall bool)
			restore := clock.Inject(&clock.Machine{
				Wall: func() time.Time { stands(true); return m.Wall() },
				Mono: func() time.Duration { stands(false); return m.Mono() },
			})
			arm := func() {
				n := reading
				stands = func(wall bool) {
					if wall == stall.atWall {
						if n--; n == -1 {
							m.Pass(time.Hour)
						}
					}
				}
			}
			var log bytes.Buffer
			if stands = func(bool) {}; stall.inNew {
				arm()
			}
			cl := clock.New(clock.Options{MaxSkew: 1, Logger: slog.New(slog.NewTextHandler(&log, nil))})
			restore()
			last := cl.Now()
			for range 10 {
				if m.Pass(tick); !stall.inNew {
					arm()
				}
				now := cl.Now()
				if now < last {
					t.Errorf("%+v, reading %d: the clock ran back by %d µs", stall, reading, last-now)
				}
				last = now
			}
			stands = func(bool) {}
			m.Pass(tick)
			if got, want := cl.Now(), m.Wall().UnixMicro(); got != want {
				t.Errorf("%+v, reading %d: the clock shows %d, the wall clock %d", stall, reading, got, want)
			}
			if log.Len() > 0 {
				t.Errorf("%+v, reading %d: nobody set the clock, and the log has %s", stall, reading, &log)
			}
		}
	}
}

// TestReaderIsOvertaken: a goroutine reads the monotonic clock, and another compares the clocks
// before the first goes on. The first must not read less than its caller has read before.
func TestReaderIsOvertaken(t *testing.T) {
	m := clocktest.New(t, time.Unix(1e9, 0))
	overtake := func() {}
	defer clock.Inject(&clock.Machine{
		Wall: func() time.Time { return m.Wall() },
		Mono: func() time.Duration { now := m.Mono(); overtake(); return now },
	})()
	cl := clock.New(clock.Options{MaxSkew: maxSkew})
	m.Set(-time.Minute)
	for range 1000 {
		m.Pass(time.Millisecond)
		cl.Now()
		m.Pass(time.Millisecond - 1)
		least := cl.Now()
		overtake = func() {
			overtake = func() {}
			m.Pass(time.Second)
			cl.Now()
		}
		if now := cl.Now(); now < least {
			t.Fatalf("the clock ran back by %d µs", least-now)
		}
	}
}

// TestReaders reads a clock from many goroutines while the wall clock steps. A reading that begins
// after another has ended is not below it.
func TestReaders(t *testing.T) {
	start := time.Now()
	var mu sync.Mutex
	r := rand.New(rand.NewPCG(1, 28))
	var offset time.Duration
	defer clock.Inject(&clock.Machine{
		Wall: func() time.Time {
			mu.Lock()
			defer mu.Unlock()
			offset += time.Duration(r.Int64N(int64(2*time.Millisecond))) - time.Millisecond
			return time.Unix(1e9, 0).Add(offset + time.Since(start))
		},
		Mono: func() time.Duration { return time.Since(start) },
	})()
	cl := clock.New(clock.Options{MaxSkew: time.Hour})
	var highest int64 // of the readings that have ended
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20_000 {
				mu.Lock()
				least := highest
				mu.Unlock()
				now := cl.Now()
				mu.Lock()
				highest = max(highest, now)
				mu.Unlock()
				if now < least {
					t.Errorf("the clock ran back by %d µs", least-now)
					return
				}
			}
		})
	}
	wg.Wait()
}

// TestMachine reads the clocks of this machine.
func TestMachine(t *testing.T) {
	cl := clock.New(clock.Options{MaxSkew: maxSkew})
	last := int64(0)
	for range 100_000 {
		now := cl.Now()
		if now < last {
			t.Fatalf("the clock ran back by %d µs", last-now)
		}
		last = now
	}
	if d := time.Since(time.UnixMicro(last)); d < 0 || d > time.Minute {
		t.Errorf("the clock shows %d, %v before the wall clock", last, d)
	}
}

func TestInjectedSource(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)
	c := clock.New(clock.Options{Source: func() time.Time { return at }, MaxSkew: time.Minute})
	if ahead := c.Resume(at.Add(time.Hour).UnixMicro()); ahead != 0 {
		t.Errorf("Resume found an injected clock %v behind; it is taken as it is", ahead)
	}
	for _, d := range []time.Duration{0, time.Second, -time.Hour, -100 * 365 * 24 * time.Hour} {
		at = at.Add(d)
		if got := c.Now(); got != at.UnixMicro() {
			t.Errorf("the clock shows %d, its source %d", got, at.UnixMicro())
		}
	}
}

func TestResume(t *testing.T) {
	for _, c := range []struct {
		why     string
		by      time.Duration // from the wall clock to the highest time of the earlier run
		want    time.Duration // from the wall clock to the first reading
		refused bool
	}{
		{"the usual restart", -time.Hour, 0, false},
		{"the wall clock was set back: no time must be used twice", time.Minute, time.Minute, false},
		{"a stored time MaxSkew ahead is believed", maxSkew, maxSkew, false},
		{"a clock that had jumped must not freeze all buckets", maxSkew + time.Microsecond, 0, true},
		{"centuries", 290 * 365 * 24 * time.Hour, 0, true},
	} {
		for _, year := range []int{1900, 1970, 2026} {
			t.Run(fmt.Sprint(c.by, " in ", year), func(t *testing.T) {
				m := clocktest.New(t, time.Date(year, 1, 1, 0, 0, 0, 1000, time.UTC))
				cl := clock.New(clock.Options{MaxSkew: maxSkew})
				ahead := cl.Resume(m.Wall().Add(c.by).UnixMicro())
				if want := c.by; c.refused && ahead != want || !c.refused && ahead != 0 {
					t.Errorf("Resume finds the time %v ahead: %s", ahead, c.why)
				}
				if got, want := cl.Now(), m.Wall().Add(c.want).UnixMicro(); got != want {
					t.Errorf("the clock shows %d, want %d: %s", got, want, c.why)
				}
				m.Pass(2 * c.want)
				if got := cl.Now(); got != m.Wall().UnixMicro() {
					t.Errorf("the clock is %d µs ahead, although it had twice the time to catch up: %s", got-m.Wall().UnixMicro(), c.why)
				}
			})
		}
	}
}

// TestBubble reads clocks in bubbles of testing/synctest, where the time since a start outside is
// negative, and outside again. Each bubble begins at the same time: for every second one that is a
// minute before the first reading in the bubble before.
func TestBubble(t *testing.T) {
	outside := clock.New(clock.Options{MaxSkew: maxSkew})
	outside.Now()
	for bubble := range 4 {
		synctest.Test(t, func(t *testing.T) {
			if bubble%2 == 0 {
				time.Sleep(time.Minute)
			}
			inside := clock.New(clock.Options{MaxSkew: maxSkew})
			for range 2 {
				for range 5 {
					want := time.Now().UnixMicro()
					if got := outside.Now(); got != want {
						t.Errorf("bubble %d, made outside: %v, want %v", bubble, time.UnixMicro(got), time.UnixMicro(want))
					}
					if got := inside.Now(); got != want {
						t.Errorf("bubble %d, made inside: %v, want %v", bubble, time.UnixMicro(got), time.UnixMicro(want))
					}
					time.Sleep(300 * time.Microsecond)
				}
				time.Sleep(time.Minute)
			}
		})
		if bubble%2 == 0 {
			continue // the next bubble follows without a reading outside
		}
		before := time.Now().UnixMicro()
		if got := outside.Now(); got < before || got > time.Now().UnixMicro() {
			t.Errorf("outside again: %v, want %v", time.UnixMicro(got), time.UnixMicro(before))
		}
	}
}
