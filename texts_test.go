package brim_test

import (
	"math"
	"testing"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/brimtest"
	"github.com/brimgo/brim/memory"
)

// TestCodeOfTexts runs code as texts about leaky buckets print it beside brim, on the same
// arrivals. docs/texts.md has the figures.
func TestCodeOfTexts(t *testing.T) {
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		why      string
		limit    brim.Limit
		arrivals []time.Duration
		text     func(brim.Limit) func(at time.Duration) bool
		texts    int // calls that the text's code admits
		brims    int
	}{
		{
			"a bucket that leaks whole drips, and notes the time of each call that goes in, loses the part of a drip each time",
			brim.Limit{Capacity: 10, LeakRate: 6},
			every(150*time.Millisecond, 667), wholeDrips, 338, 609,
		},
		{
			"a key that expires a minute after the last call forgets the units that have not leaked by then",
			brim.Limit{Capacity: 1000, LeakRate: 1},
			append(every(0, 1000), every(0, 1000, 61*time.Second)...), oneMinute, 2000, 1061,
		},
	} {
		clock := brimtest.NewClock(start)
		lim := brim.New(memory.New(&memory.Options{Clock: clock.Now}), nil)
		admits := c.text(c.limit)
		texts, brims := 0, 0
		for _, at := range c.arrivals {
			clock.Set(start.Add(at))
			st, err := lim.TryFillup(t.Context(), c.limit.For("client"), 1)
			noError(t, err)
			if st.Accepted {
				brims++
			}
			if admits(at) {
				texts++
			}
		}
		if texts != c.texts || brims != c.brims {
			t.Errorf("%s: the text's code admits %d and brim %d of %d; want %d and %d", c.why, texts, brims, len(c.arrivals), c.texts, c.brims)
		}
	}
}

// every returns n arrivals with a pause between them, from the last of begin on.
func every(pause time.Duration, n int, begin ...time.Duration) (list []time.Duration) {
	for i := range n {
		at := time.Duration(i) * pause
		for _, b := range begin {
			at += b
		}
		list = append(list, at)
	}
	return list
}

// wholeDrips leaks the whole units of the time since the last call that went in.
func wholeDrips(l brim.Limit) func(time.Duration) bool {
	level, last := 0.0, time.Duration(0)
	return func(at time.Duration) bool {
		left := max(0, level-math.Floor((at-last).Seconds()*l.LeakRate))
		if left+1 > l.Capacity {
			return false
		}
		level, last = left+1, at
		return true
	}
}

// oneMinute keeps a bucket for a minute after its last call.
func oneMinute(l brim.Limit) func(time.Duration) bool {
	level, last := 0.0, time.Duration(0)
	return func(at time.Duration) bool {
		if level = max(0, level-(at-last).Seconds()*l.LeakRate); at-last > time.Minute {
			level = 0
		}
		last = at
		if level+1 > l.Capacity {
			return false
		}
		level++
		return true
	}
}
