package store

import (
	"errors"
	"testing"
	"time"
)

const (
	second = int64(1_000_000)
	noon   = 1_767_225_600 * second // of some day
)

func at(s float64) int64 { return noon + int64(s*1e6) }

func TestFill(t *testing.T) {
	limit, double := Limit{Capacity: 10, LeakRate: 1}, Limit{Capacity: 10, LeakRate: 2}
	const oddly = 1 + 0x1p-52 + 0x1p-51 // odd in its last bit, so half a unit beside it is not lost
	bucket := func(level, held float64) Record { return Record{Level: level, Held: held, Time: noon, Limit: limit} }
	op := func(mode Mode, amount, hold float64) Op {
		return Op{Bucket: limit.For("k"), Mode: mode, Amount: amount, Hold: hold}
	}
	blocked := func(r Record, until float64) Record { r.BlockedUntil = at(until); return r }
	with := func(o Op, change func(*Op)) Op { change(&o); return o }
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
			"fits", "the level is the level before, less the leak, plus the amount",
			bucket(8, 0), op(IfFits, 4, 0), at(3),
			State{Level: 9, Accepted: true},
			Write,
			Record{Level: 9, Time: at(3), Limit: limit},
		},
		{
			"does not fit", "a refusal does not change the record",
			bucket(8, 0), op(IfFits, 4, 0), at(1),
			State{Level: 7, RetryAfter: time.Second},
			0, bucket(8, 0),
		},
		{
			"exactly full", "an amount that fills the bucket exactly fits",
			bucket(6, 0), op(IfFits, 4, 0), noon,
			State{Level: 10, Accepted: true, Full: true},
			Write, bucket(10, 0),
		},
		{
			"zero", "an amount of 0 writes nothing",
			bucket(6, 0), op(Clamp, 0, 0), at(1),
			State{Level: 5, Accepted: true},
			0, bucket(6, 0),
		},
		{
			"spills", "a Fillup fills up to the capacity less the held units",
			bucket(6, 3), op(Clamp, 4, 0), noon,
			State{Level: 7, Held: 3, Spilled: 3, Full: true, RetryAfter: 4 * time.Second},
			Write, bucket(7, 3),
		},
		{
			"always", "mode Always goes above the capacity, and is Full",
			bucket(6, 0), op(Always, 40, 0), noon,
			State{Level: 46, Accepted: true, Full: true},
			Write, bucket(46, 0),
		},
		{
			"drain", "a drain never goes below zero and is never Full",
			bucket(6, 0), op(Always, -40, 0), noon,
			State{Accepted: true, Drained: 6},
			Write, bucket(0, 0),
		},
		{
			"drain of a leaked bucket", "a drain of an empty bucket writes nothing",
			bucket(6, 0), op(Always, -1, 0), at(6),
			State{Accepted: true},
			0, bucket(6, 0),
		},
		{
			"capture", "held units go out and used units go in, in one step",
			bucket(2, 6), op(Always, 5, -6), at(1),
			State{Level: 6, Accepted: true},
			Write,
			Record{Level: 6, Time: at(1), Limit: limit},
		},
		{
			"clock behind", "the bucket's time does not go back, and the wait starts at the clock",
			bucket(9, 0), op(IfFits, 3, 0), at(-60),
			State{Level: 9, RetryAfter: 62 * time.Second},
			0, bucket(9, 0),
		},
		{
			"clock too far behind", "even a refused call sets the time to the clock",
			bucket(9, 0), op(IfFits, 3, 0), at(-301),
			State{Level: 9, RetryAfter: 2 * time.Second},
			Write | Skewed,
			Record{Level: 9, Time: at(-301), Limit: limit},
		},
		{
			"drain of an empty bucket, clock too far behind", "the time is set to the clock even if nothing else changes",
			bucket(0, 0), op(Always, -3, 0), at(-301),
			State{Accepted: true},
			Write | Skewed,
			Record{Time: at(-301), Limit: limit},
		},
		{
			"penalty", "an amount that does not fit blocks the bucket",
			bucket(9, 0), with(op(IfFits, 3, 0), func(o *Op) { o.BlockFor = time.Minute }), noon,
			State{Level: 9, RetryAfter: time.Minute, BlockedUntil: toTime(at(60))},
			Write,
			Record{Level: 9, Time: noon, Limit: limit, BlockedUntil: at(60)},
		},
		{
			"penalty until empty, of an empty bucket", "the block is over at once, so nothing is written",
			bucket(0, 0), with(op(IfFits, 11, 0), func(o *Op) { o.BlockFor = UntilEmpty }), noon,
			State{RetryAfter: Never},
			0, bucket(0, 0),
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
			"no penalty", "an amount that fits blocks nothing",
			bucket(6, 0), with(op(IfFits, 3, 0), func(o *Op) { o.BlockFor = time.Minute }), noon,
			State{Level: 9, Accepted: true},
			Write, bucket(9, 0),
		},
		{
			"penalty of a new bucket", "the bucket is listed and pruned by the limit of the call",
			NewRecord(noon), with(op(IfFits, 11, 0), func(o *Op) { o.BlockFor = time.Minute }), noon,
			State{RetryAfter: Never, BlockedUntil: toTime(at(60))},
			Write,
			Record{Time: noon, Limit: limit, BlockedUntil: at(60)},
		},
		{
			"penalty by another limit", "a refused call does not change the limit last written",
			bucket(9, 0),
			Op{Bucket: Limit{Capacity: 9, LeakRate: 1}.For("k"), Amount: 3, BlockFor: time.Minute},
			noon,
			State{Level: 9, RetryAfter: time.Minute, BlockedUntil: toTime(at(60))},
			Write,
			Record{Level: 9, Time: noon, Limit: limit, BlockedUntil: at(60)},
		},
		{
			"at the end of a block", "the block lasts until just before that time",
			blocked(bucket(6, 0), 5), op(IfFits, 4, 0), at(5),
			State{Level: 5, Accepted: true},
			Write,
			Record{Level: 5, Time: at(5), Limit: limit, BlockedUntil: at(5)},
		},
		{
			"an event during a block", "a Fillup goes in all the same, and its RetryAfter is the rest of the block",
			blocked(bucket(2, 3), 60), op(Clamp, 4, 0), noon,
			State{Level: 6, Held: 3, RetryAfter: time.Minute, BlockedUntil: toTime(at(60))},
			Write, blocked(bucket(6, 3), 60),
		},
		{
			"an event that fills during a block", "the level and the held units reach the capacity",
			blocked(bucket(2, 3), 60), op(Clamp, 5, 0), noon,
			State{Level: 7, Held: 3, Full: true, RetryAfter: time.Minute, BlockedUntil: toTime(at(60))},
			Write, blocked(bucket(7, 3), 60),
		},
		{
			"a Fillup above a ceiling", "a Fillup that loses units is Full",
			bucket(2, 0), with(op(Clamp, 4, 0), func(o *Op) { o.Ceiling = 4 }), noon,
			State{Level: 4, Spilled: 2, Full: true, RetryAfter: 4 * time.Second},
			Write, bucket(4, 0),
		},
		{
			"a clock that was set right, during a block", "the block keeps the minute that it had left",
			blocked(bucket(2, 0), 60), op(IfFits, 3, 0), at(-3600),
			State{Level: 2, RetryAfter: time.Minute, BlockedUntil: toTime(at(-3540))},
			Write | Skewed,
			Record{Level: 2, Time: at(-3600), Limit: limit, BlockedUntil: at(-3540)},
		},
		{
			"a clock that was set right, after a block", "a block that was over does not begin again",
			blocked(bucket(2, 0), -60), op(IfFits, 3, 0), at(-3600),
			State{Level: 5, Accepted: true},
			Write | Skewed,
			Record{Level: 5, Time: at(-3600), Limit: limit, BlockedUntil: at(-3600)},
		},
		{
			"a clock that was set right, at the end of a block", "nothing was left of the block",
			blocked(bucket(2, 0), 0), op(IfFits, 3, 0), at(-3600),
			State{Level: 5, Accepted: true},
			Write | Skewed,
			Record{Level: 5, Time: at(-3600), Limit: limit, BlockedUntil: at(-3600)},
		},
		{
			"clock behind by MaxSkew", "the stored time is believed",
			bucket(9, 0), op(IfFits, 3, 0), at(-300),
			State{Level: 9, RetryAfter: 302 * time.Second},
			0, bucket(9, 0),
		},
		{
			"an empty bucket", "what goes in leaks from now on, not from the last write on",
			bucket(0, 0), op(IfFits, 4, 0), at(3),
			State{Level: 4, Accepted: true},
			Write,
			Record{Level: 4, Time: at(3), Limit: limit},
		},
		{
			"a bucket that does not leak", "no leak is lost, so the time is that of the write",
			Record{Level: 2, Time: noon, Limit: Limit{Capacity: 10}},
			Op{Bucket: Limit{Capacity: 10}.For("k"), Amount: 3},
			at(3),
			State{Level: 5, Accepted: true},
			Write,
			Record{Level: 5, Time: at(3), Limit: Limit{Capacity: 10}},
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
		{
			"less than a unit into an empty bucket", "it is written",
			bucket(0, 0), op(IfFits, 0.5, 0), noon,
			State{Level: 0.5, Accepted: true},
			Write, bucket(0.5, 0),
		},
		{
			"a hold that does not fit", "held units need room as others do",
			bucket(8, 0), op(IfFits, 0, 4), noon,
			State{Level: 8, RetryAfter: 2 * time.Second},
			0, bucket(8, 0),
		},
		{
			"a hold that fills", "the bucket is Full of level and held units",
			bucket(9, 0), op(IfFits, 0, 1), noon,
			State{Level: 9, Held: 1, Accepted: true, Full: true},
			Write, bucket(9, 1),
		},
		{
			"the last unit beside a hold", "the bucket is Full of level and held units",
			bucket(6, 3), op(IfFits, 1, 0), noon,
			State{Level: 7, Held: 3, Accepted: true, Full: true},
			Write, bucket(7, 3),
		},
		{
			"a drain that leaves more than the capacity", "a drain is never Full",
			bucket(46, 0), op(Always, -1, 0), noon,
			State{Level: 45, Accepted: true, Drained: 1},
			Write, bucket(45, 0),
		},
		{
			"a capture that leaves more than the capacity", "a capture is never Full",
			bucket(20, 6), op(Always, 5, -6), noon,
			State{Level: 25, Accepted: true},
			Write, bucket(25, 0),
		},
		{
			"a release that leaves more than the capacity", "a release is never Full",
			bucket(20, 6), op(Always, 0, -6), noon,
			State{Level: 20, Accepted: true},
			Write, bucket(20, 0),
		},
		{
			"a ceiling of some seconds ago", "the ceiling has sunk as the level has",
			bucket(8, 0), with(op(IfFits, 1, 0), func(o *Op) { o.Ceiling, o.CeilingAt = 9, toTime(noon) }), at(3),
			State{Level: 6, Accepted: true},
			Write,
			Record{Level: 6, Time: at(3), Limit: limit},
		},
		{
			"too much for a ceiling of some seconds ago", "the level never comes below the ceiling, so no wait helps",
			bucket(8, 0), with(op(IfFits, 2, 0), func(o *Op) { o.Ceiling, o.CeilingAt = 9, toTime(noon) }), at(3),
			State{Level: 5, RetryAfter: Never},
			0, bucket(8, 0),
		},
		{
			"a ceiling of the future", "a ceiling does not rise",
			bucket(8, 0), with(op(IfFits, 2, 0), func(o *Op) { o.Ceiling, o.CeilingAt = 9, toTime(at(60)) }), noon,
			State{Level: 8, RetryAfter: Never},
			0, bucket(8, 0),
		},
		{
			"held units leave no room", "a wait makes room for nothing that the held units keep out",
			bucket(1, 6), op(IfFits, 5, 0), noon,
			State{Level: 1, Held: 6, RetryAfter: Never},
			0, bucket(1, 6),
		},
		{
			"held units leave just enough room", "the amount fits once the bucket is empty",
			bucket(1, 6), op(IfFits, 4, 0), noon,
			State{Level: 1, Held: 6, RetryAfter: time.Second},
			0, bucket(1, 6),
		},
		{
			"ceiling", "a ceiling lowers the capacity and is not stored",
			bucket(2, 0), with(op(IfFits, 3, 0), func(o *Op) { o.Ceiling = 4 }), noon,
			State{Level: 2, RetryAfter: time.Second},
			0, bucket(2, 0),
		},
		{
			"slow leak", "a wait that ends after MaxTime is Never",
			Record{Level: 10, Time: noon, Limit: Limit{Capacity: 10, LeakRate: 1e-10}},
			Op{Bucket: Limit{Capacity: 10, LeakRate: 1e-10}.For("k"), Amount: 1},
			noon,
			State{Level: 10, RetryAfter: Never},
			0,
			Record{Level: 10, Time: noon, Limit: Limit{Capacity: 10, LeakRate: 1e-10}},
		},
		{
			"a fill at another rate", "the time before it leaks at the old rate",
			bucket(8, 1),
			Op{Bucket: double.For("k"), Amount: 3},
			at(2),
			State{Level: 9, Held: 1, Accepted: true, Full: true},
			Write,
			Record{Level: 9, Held: 1, Time: at(2), Limit: double},
		},
		{
			"a refusal at another rate", "it ends the time at the old rate, and its wait is by the new one",
			bucket(8, 1),
			Op{Bucket: double.For("k"), Amount: 7},
			at(2),
			State{Level: 6, Held: 1, RetryAfter: 2 * time.Second},
			Write,
			Record{Level: 6, Held: 1, Time: at(2), Limit: double},
		},
		{
			"a refusal for ever at another rate", "there is nothing to wait for, so nothing is written",
			bucket(8, 1),
			Op{Bucket: double.For("k"), Amount: 11},
			at(2),
			State{Level: 6, Held: 1, RetryAfter: Never},
			0, bucket(8, 1),
		},
		{
			"an idle drain at another rate", "a drain of an empty bucket writes nothing",
			bucket(1, 0),
			Op{Bucket: double.For("k"), Amount: -1, Mode: Always},
			at(2),
			State{Accepted: true},
			0, bucket(1, 0),
		},
		{
			"a lost leak at another rate", "time stays only where the rate stays",
			Record{Level: 1 << 52, Time: noon, Limit: Limit{Capacity: 1 << 53, LeakRate: 0.125}},
			Op{Bucket: Limit{Capacity: 1 << 53, LeakRate: 0.25}.For("k"), Amount: 2},
			at(1),
			State{Level: 1<<52 + 2, Accepted: true},
			Write,
			Record{Level: 1<<52 + 2, Time: at(1), Limit: Limit{Capacity: 1 << 53, LeakRate: 0.25}},
		},
		{
			"an amount lost in the level", "half a rounding unit raises the level by a whole one",
			Record{Level: 1, Time: noon, Limit: Limit{Capacity: oddly}},
			Op{Bucket: Limit{Capacity: oddly}.For("k"), Amount: 0x1p-53},
			noon,
			State{Level: 1 + 0x1p-52, Accepted: true},
			Write,
			Record{Level: 1 + 0x1p-52, Time: noon, Limit: Limit{Capacity: oddly}},
		},
		{
			"an amount lost in the level, without room for more", "it fits only if the next level does",
			Record{Level: 1, Time: noon, Limit: Limit{Capacity: oddly}},
			Op{Bucket: Limit{Capacity: oddly}.For("k"), Amount: 0x1p-53, Ceiling: 1},
			noon,
			State{Level: 1, RetryAfter: Never},
			0,
			Record{Level: 1, Time: noon, Limit: Limit{Capacity: oddly}},
		},
		{
			"an amount lost far above the capacity", "also an amount that always goes in raises the level",
			Record{Level: 1 << 60, Time: noon, Limit: limit},
			op(Always, 1, 0), noon,
			State{Level: 1<<60 + 1<<8, Accepted: true, Full: true},
			Write,
			Record{Level: 1<<60 + 1<<8, Time: noon, Limit: limit},
		},
		{
			"a block before 1970", "a negative end is an end",
			Record{Level: 9, Time: -9e6, Limit: limit, BlockedUntil: -3e6},
			op(IfFits, 1, 0), -5e6,
			State{Level: 5, RetryAfter: 2 * time.Second, BlockedUntil: toTime(-3e6)},
			0,
			Record{Level: 9, Time: -9e6, Limit: limit, BlockedUntil: -3e6},
		},
		{
			"no block before 1970", "0 is no time",
			Record{Level: 9, Time: -9e6, Limit: limit},
			op(IfFits, 1, 0), -5e6,
			State{Level: 6, Accepted: true},
			Write,
			Record{Level: 6, Time: -5e6, Limit: limit},
		},
		{
			"a block that ends at the beginning of 1970", "0 would be no block",
			Record{Level: 10, Time: -5e6, Limit: limit},
			with(op(IfFits, 1, 0), func(o *Op) { o.BlockFor = 5 * time.Second }), -5e6,
			State{Level: 10, RetryAfter: 5*time.Second + time.Microsecond, BlockedUntil: toTime(1)},
			Write,
			Record{Level: 10, Time: -5e6, Limit: limit, BlockedUntil: 1},
		},
		{
			"a release without a limit", "the limit last written decides and stays",
			bucket(8, 3),
			Op{Bucket: Bucket{Key: "k"}, Hold: -2, Mode: Always},
			at(3),
			State{Level: 5, Held: 1, Accepted: true},
			Write,
			Record{Level: 5, Held: 1, Time: at(3), Limit: limit},
		},
		{
			"slowest leak", "an estimate above any integer is Never, not an overflow",
			Record{Level: 1 << 53, Time: noon},
			Op{Bucket: Limit{Capacity: 1 << 53, LeakRate: 1e-12}.For("k"), Amount: 1 << 53},
			noon,
			State{Level: 1 << 53, RetryAfter: Never},
			0,
			Record{Level: 1 << 53, Time: noon},
		},
		{
			"tiny leak", "a leak that does not change the level leaves the time, so that it is not lost",
			Record{Level: 1 << 52, Time: noon},
			Op{Bucket: Limit{Capacity: 1 << 53, LeakRate: 0.125}.For("k"), Amount: 2},
			at(1),
			State{Level: 1<<52 + 2, Accepted: true},
			Write,
			Record{Level: 1<<52 + 2, Time: noon, Limit: Limit{Capacity: 1 << 53, LeakRate: 0.125}},
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
			by := c.op.Limit
			if by == (Limit{}) {
				by = c.from.Limit
			}
			c.want.Capacity, c.want.LeakRate, c.want.At = by.Capacity, by.LeakRate, got.At
			if got != c.want || effect != c.effect || r != c.after {
				t.Errorf("\n got %+v, %v, %+v\nwant %+v, %v, %+v\nwhy: %s",
					got, effect, r, c.want, c.effect, c.after, c.why)
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
			Op{Bucket: limit.For("k"), Amount: 1, Mode: Unblock + 1},
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

func TestRefusal(t *testing.T) {
	limit := Limit{Capacity: 10, LeakRate: 1}
	for _, c := range []struct {
		name  string
		from  Record
		clock int64
		n     float64
		want  time.Duration
	}{
		{"in a microsecond", Record{Level: 9, Time: noon, Limit: limit}, at(1) + 999_999, 3, time.Microsecond},
		{"at the end of a block", Record{Level: 1, Time: noon, Limit: limit, BlockedUntil: at(7)}, at(7), 11, Never},
		{
			"blocked until the stored time, clock behind",
			Record{Level: 9, Time: noon, Limit: limit, BlockedUntil: noon},
			at(-10), 3, 12 * time.Second,
		},
		{"now", Record{Level: 9, Time: noon, Limit: limit}, noon, 3, 2 * time.Second},
		{"later", Record{Level: 9, Time: noon, Limit: limit}, at(1), 3, time.Second},
		{"clock behind", Record{Level: 9, Time: noon, Limit: limit}, at(-10), 3, 12 * time.Second},
		{"clock too far behind", Record{Level: 9, Time: noon, Limit: limit}, at(-1000), 3, 2 * time.Second},
		{"never", Record{Level: 9, Time: noon, Limit: limit}, noon, 11, Never},
		{"blocked", Record{Level: 1, Time: noon, Limit: limit, BlockedUntil: at(7)}, at(1), 3, 6 * time.Second},
	} {
		before, op := c.from, Op{Bucket: limit.For("k"), Amount: c.n}
		got := c.from.Refusal(&op, c.clock, DefaultMaxSkew)
		filled, _, err := before.Fill(&op, c.clock, DefaultMaxSkew)
		if err != nil || got != filled || got.RetryAfter != c.want {
			t.Errorf("%s: %+v, want the state that Fill returns, %+v, and RetryAfter %v", c.name, got, filled, c.want)
		}
	}
}

func TestLevelAt(t *testing.T) {
	rate, micros, million := 0.7, float64(123_457), 1e6 // variables: the compiler folds constants exactly
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
		{"the seconds are rounded before the product", 1, rate, noon + 123_457, 1 - product},
	} {
		r := Record{Level: c.level, Time: noon, Limit: Limit{LeakRate: c.rate}}
		if got := r.LevelAt(c.now); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestStateOfNewRecord(t *testing.T) {
	got := NewRecord(noon).State(Limit{Capacity: 3, LeakRate: 2}, noon, DefaultMaxSkew)
	if want := (State{Capacity: 3, LeakRate: 2, At: toTime(noon)}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := NewRecord(noon).State(Limit{}, noon, DefaultMaxSkew); got != (State{At: toTime(noon)}) {
		t.Errorf("without a limit: %+v, want capacity 0", got)
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
		if got != want || r != before {
			t.Errorf("%+v, want %+v; why: %s", got, want, c.why)
		}
	}
}

func TestStateByTheLimitLastWritten(t *testing.T) {
	r := Record{Level: 8, Held: 1, Time: noon, Limit: Limit{Capacity: 10, LeakRate: 2}, BlockedUntil: at(5)}
	got := r.State(Limit{}, at(3), DefaultMaxSkew)
	want := State{Level: 2, Held: 1, Capacity: 10, LeakRate: 2, At: toTime(at(3)), BlockedUntil: toTime(at(5))}
	if got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := r.State(Limit{}, at(5), DefaultMaxSkew); !got.BlockedUntil.IsZero() {
		t.Errorf("BlockedUntil %v at that very time; want zero, because the block is over", got.BlockedUntil)
	}
}

func TestExpired(t *testing.T) {
	leaks := Limit{Capacity: 10, LeakRate: 1}
	skew := DefaultMaxSkew.Seconds()
	for _, c := range []struct {
		why   string
		r     Record
		after float64 // seconds
		want  bool
	}{
		{"empty for MaxSkew", Record{Level: 8, Time: noon, Limit: leaks}, 8 + skew, true},
		{"empty for a little less than MaxSkew", Record{Level: 8, Time: noon, Limit: leaks}, 8 + skew - 1e-6, false},
		{"written less than MaxSkew ago", Record{Time: noon, Limit: leaks}, skew - 1e-6, false},
		{"written MaxSkew ago", Record{Time: noon, Limit: leaks}, skew, true},
		{"held", Record{Held: 1, Time: noon, Limit: leaks}, 1e6, false},
		{"does not leak", Record{Time: noon, Limit: Limit{Capacity: 1}}, 1e6, false},
		{
			"blocked until less than MaxSkew ago",
			Record{Time: noon, Limit: leaks, BlockedUntil: at(100)},
			100 + skew - 1e-6, false,
		},
		{"blocked until MaxSkew ago", Record{Time: noon, Limit: leaks, BlockedUntil: at(100)}, 100 + skew, true},
		{"ahead of the clock", Record{Time: noon, Limit: leaks}, -1e6, false},
	} {
		if got := c.r.Expired(at(c.after), DefaultMaxSkew); got != c.want {
			t.Errorf("%s: expired = %v after %v s", c.why, got, c.after)
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
