package store

import (
	"errors"
	"testing"
	"time"

	"github.com/brimgo/brim/internal/differ"
)

const (
	second = int64(1_000_000)
	noon   = 1_767_225_600 * second // of some day
)

func at(s float64) int64 { return noon + int64(s*1e6) }

// TestFill has the cases that the conformance suite, which sees only answers, does not find.
// Package memory runs the suite over Record.
func TestFill(t *testing.T) {
	limit := Limit{Capacity: 10, LeakRate: 1}
	bucket := func(level, held float64) Record { return Record{Level: level, Held: held, Time: noon, Limit: limit} }
	op := func(mode Mode, amount, hold float64) Op {
		return Op{Bucket: limit.For("k"), Mode: mode, Amount: amount, Hold: hold}
	}
	blocked := func(r Record, until float64) Record { r.BlockedUntil = at(until); return r }
	cases := []struct {
		name, why string
		from      Record
		op        Op
		clock     int64
		want      State // without capacity, leak rate and time
		effect    Effect
		after     Record
	}{
		{
			"clock too far behind", "even a refused call sets the time to the clock",
			bucket(9, 0), op(IfFits, 3, 0), at(-301),
			State{Level: 9, RetryAfter: 2 * time.Second},
			Write | Skewed,
			Record{Level: 9, Time: at(-301), Limit: limit},
		},
		{
			"penalty until empty, no leak", "the bucket never empties, so the block lasts for ever",
			Record{Level: 9, Time: noon, Limit: Limit{Capacity: 10}},
			Op{Bucket: Limit{Capacity: 10}.For("k"), Amount: 3, BlockFor: UntilEmpty},
			noon,
			State{Level: 9, RetryAfter: Never, BlockedUntil: toTime(MaxTime)},
			Write,
			Record{Level: 9, Time: noon, Limit: Limit{Capacity: 10}, BlockedUntil: MaxTime},
		},
		{
			"an event that fills during a block", "the level and the held units reach the capacity",
			blocked(bucket(2, 3), 60), op(Clamp, 5, 0), noon,
			State{Level: 7, Held: 3, Full: true, RetryAfter: time.Minute, BlockedUntil: toTime(at(60))},
			Write, blocked(bucket(7, 3), 60),
		},
		{
			"a clock that was set right, after a block", "a block that was over does not begin again",
			blocked(bucket(2, 0), -60), op(IfFits, 3, 0), at(-3600),
			State{Level: 5, Accepted: true},
			Write | Skewed,
			Record{Level: 5, Time: at(-3600), Limit: limit, BlockedUntil: at(-3600)},
		},
		{
			"a clock that was set right, during a block for ever", "never stays never",
			Record{Level: 2, Time: noon, Limit: limit, BlockedUntil: MaxTime},
			op(IfFits, 3, 0), at(-3600),
			State{Level: 2, RetryAfter: Never, BlockedUntil: toTime(MaxTime)},
			Write | Skewed,
			Record{Level: 2, Time: at(-3600), Limit: limit, BlockedUntil: MaxTime},
		},
		{
			"unblock after the end of a block", "the clock may step back to before its end",
			blocked(bucket(6, 0), 5), op(Unblock, 0, 0), at(6),
			State{Accepted: true},
			Write, bucket(6, 0),
		},
		{
			"tiny leak of less than a unit", "the time stays, however low the level is",
			Record{Level: 0.5, Time: noon},
			Op{Bucket: Limit{Capacity: 10, LeakRate: 1e-12}.For("k"), Amount: 2},
			noon + 1,
			State{Level: 2.5, Accepted: true},
			Write,
			Record{Level: 2.5, Time: noon, Limit: Limit{Capacity: 10, LeakRate: 1e-12}},
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := c.from
			got, effect, err := r.Fill(&c.op, c.clock, DefaultMaxSkew)
			if err != nil {
				t.Fatal(err)
			}
			if !got.At.Equal(toTime(max(c.clock, r.Time))) {
				t.Errorf("At = %v", got.At)
			}
			c.want.Capacity, c.want.LeakRate, c.want.At = c.op.Capacity, c.op.LeakRate, got.At
			if d := differ.Fields([]any{got, r}, []any{c.want, c.after}); d != "" || effect != c.effect {
				t.Errorf("effect %v, want %v; the state and the record:\n%s\nwhy: %s", effect, c.effect, d, c.why)
			}
		})
	}
}

func TestFillErrors(t *testing.T) {
	limit := Limit{Capacity: 10, LeakRate: 1}
	for _, c := range []struct {
		why  string
		op   Op
		want error
	}{
		{"more units than are held", Op{Bucket: limit.For("k"), Hold: -2, Mode: Always}, ErrNotHeld},
		{
			"an unknown mode is an error",
			Op{Bucket: limit.For("k"), Amount: 1, Mode: UpTo + 1},
			errors.ErrUnsupported,
		},
		{
			"an unknown mode is an error even with an amount of 0",
			Op{Bucket: limit.For("k"), Mode: 255},
			errors.ErrUnsupported,
		},
	} {
		// The stored time is too far ahead of the clock, but stays: an error changes
		// nothing at all.
		before := Record{Level: 3, Held: 1, Time: noon, Limit: limit}
		r := before
		st, effect, err := r.Fill(&c.op, at(-3600), DefaultMaxSkew)
		if !errors.Is(err, c.want) || st != (State{}) || effect != 0 || r != before {
			t.Errorf("%+v, %v, %v, %+v; want %v and an unchanged record\nwhy: %s", st, effect, err, r, c.want, c.why)
		}
	}
}

func TestLevelAt(t *testing.T) {
	rate, micros, million := 0.7, float64(123_496), 1e6 // variables: the compiler folds constants exactly
	seconds := micros / million
	product := rate * seconds
	for _, c := range []struct {
		name  string
		level float64
		rate  float64
		now   int64
		want  float64
	}{
		{"part of the level leaks", 8, 2, at(3), 2},
		{"a level never falls below zero", 8, 2, at(5), 0},
		{"nothing leaks at rate 0", 8, 0, at(1e6), 8},
		{"nothing leaks at the time of the write", 8, 2, noon, 8},
		{"nothing leaks before the time of the write", 8, 2, at(-3), 8},
		{"the seconds are rounded before the product", 1, rate, noon + 123_496, 1 - product},
	} {
		r := Record{Level: c.level, Time: noon, Limit: Limit{LeakRate: c.rate}}
		if got := r.LevelAt(c.now); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// TestStateAfterASkew: a read answers as the next write will, and changes nothing.
func TestStateAfterASkew(t *testing.T) {
	limit := Limit{Capacity: 10, LeakRate: 1}
	for _, c := range []struct {
		why          string
		until, clock float64 // seconds
		at, blocked  float64
	}{
		{"the time is set to the clock, and the block keeps its rest", 60, -3600, -3600, -3540},
		{"a clock behind by MaxSkew is believed", 60, -300, 0, 60},
	} {
		r := Record{Level: 8, Time: noon, Limit: limit, BlockedUntil: at(c.until)}
		before := r
		got := r.State(limit, at(c.clock), DefaultMaxSkew)
		want := State{Level: 8, Capacity: 10, LeakRate: 1, At: toTime(at(c.at)), BlockedUntil: toTime(at(c.blocked))}
		if d := differ.Fields([]any{got, r}, []any{want, before}); d != "" {
			t.Errorf("the state and the record:\n%s\nwhy: %s", d, c.why)
		}
	}
}

// TestExtremeTimes moves the clock anywhere between the year 1, which is the zero time, and
// 9999. No clock may raise a level or cause a NaN or a panic.
func TestExtremeTimes(t *testing.T) {
	first, last := time.Time{}.UnixMicro(), time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC).UnixMicro()
	times := []int64{first, first + 1, -1, 0, 1, noon, last - 1, last}
	for _, written := range times {
		for _, clock := range times {
			for _, rate := range []float64{0, 1e-12, 1, 1 << 53} {
				limit := Limit{Capacity: 10, LeakRate: rate}
				r := Record{Level: 9, Time: written, Limit: limit}
				st, _, err := r.Fill(&Op{Bucket: limit.For("k"), Amount: 3, BlockFor: UntilEmpty}, clock, DefaultMaxSkew)
				if err != nil || !(st.Level >= 0 && st.Level <= 10) || !(r.Level >= 0 && r.Level <= 10) {
					t.Errorf("written at %d, clock %d, rate %v: %+v, %+v, %v", written, clock, rate, st, r, err)
				}
				_ = r.Expired(clock, DefaultMaxSkew)
			}
		}
	}
}
