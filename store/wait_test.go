package store

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// TestWaitIsTheShortest: the amount fits after RetryAfter, and not a microsecond before.
func TestWaitIsTheShortest(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	waits, nevers := 0, 0
	for range 5000 {
		capacity := math.Ldexp(1+random.Float64(), random.IntN(50))
		limit := Limit{Capacity: capacity, LeakRate: capacity * math.Ldexp(random.Float64(), -random.IntN(40))}
		r := Record{
			Level: capacity * 2 * random.Float64(), Held: capacity * random.Float64() * float64(random.IntN(2)),
			Time: noon, Limit: limit,
		}
		clock := noon + random.Int64N(1<<random.IntN(28)+1) - random.Int64N(1<<random.IntN(28)+1)
		txn := Txn{{Bucket: limit.For("k"), Amount: capacity * random.Float64()}}
		if random.IntN(4) == 0 { // the wait of a transaction is until all of its operations fit
			txn = append(txn, Op{Bucket: limit.For("k"), Amount: capacity * random.Float64() / 4})
		}
		accepted := func(clock int64) bool {
			trial := r
			recs := make([]*Record, len(txn))
			for i := range recs {
				recs[i] = &trial
			}
			res, _ := Decide(txn, recs, clock, DefaultMaxSkew)
			return res.Accepted
		}
		trial := r
		recs := []*Record{&trial, &trial}[:len(txn)]
		res, _ := Decide(txn, recs, clock, DefaultMaxSkew)
		wait := time.Duration(0)
		for _, st := range res.States {
			wait = max(wait, st.RetryAfter)
		}
		switch {
		case res.Accepted:
		case wait == Never:
			nevers++
			if accepted(MaxTime - 1) {
				t.Fatalf("%+v, clock %+d: %+v fits, and RetryAfter is Never", r, clock-noon, txn)
			}
		default:
			waits++
			us := wait.Microseconds()
			if !accepted(clock+us) || accepted(clock+us-1) {
				t.Fatalf("%+v, clock %+d, %+v: after %d us it fits: %v, and a microsecond before: %v",
					r, clock-noon, txn, us, accepted(clock+us), accepted(clock+us-1))
			}
		}
	}
	if waits < 1000 || nevers < 500 {
		t.Errorf("%d waits and %d that never end; want many of both", waits, nevers)
	}
}

// TestRefusalOfAnAmountThatFits: a wrapper may ask for the wait of an amount that fits by now.
func TestRefusalOfAnAmountThatFits(t *testing.T) {
	limit := Limit{Capacity: 10, LeakRate: 1}
	record := func(level float64, until int64) Record {
		return Record{Level: level, Time: noon, Limit: limit, BlockedUntil: until}
	}
	hold := Op{Bucket: limit.For("k"), Hold: 3}
	fast := Limit{Capacity: 10, LeakRate: 1 << 20} // a unit in less than a microsecond
	quick := Record{Level: 9.5, Time: noon, Limit: fast}
	sinking := Op{Bucket: limit.For("k"), Amount: 3, Ceiling: 9, CeilingAt: toTime(noon)}
	for _, c := range []struct {
		why   string
		r     Record
		op    Op
		clock int64
		want  time.Duration
	}{
		{"the level has leaked", record(9, 0), Op{Bucket: limit.For("k"), Amount: 3}, at(5), 0},
		{"a block that ends at the stored time is over", record(1, noon), Op{Bucket: limit.For("k"), Amount: 3}, at(-10), 0},
		{"a hold needs as much room", record(9, 0), hold, noon, 2 * time.Second},
		{"a ceiling sinks as the level does", record(8, 0), sinking, at(-10), Never},
		{"only a block keeps out what fits under a ceiling", record(2, at(60)), sinking, noon, time.Minute},
		{
			"a ceiling has sunk since",
			record(8, 0),
			Op{Bucket: limit.For("k"), Amount: 1, Ceiling: 9, CeilingAt: toTime(noon)},
			at(3), 0,
		},
		{
			"a wait of a microsecond begins at the stored time",
			quick,
			Op{Bucket: fast.For("k"), Amount: 1},
			at(-10), 10*time.Second + time.Microsecond,
		},
		{
			"no wait helps under a ceiling, not even a microsecond",
			quick,
			Op{Bucket: fast.For("k"), Amount: 1, Ceiling: 10, CeilingAt: toTime(noon)},
			noon, Never,
		},
		{
			"a ceiling of now has not sunk",
			quick,
			Op{Bucket: fast.For("k"), Amount: 0.5, Ceiling: 10, CeilingAt: toTime(noon)},
			noon, 0,
		},
		{
			"a ceiling sinks until the stored time",
			record(5, 0),
			Op{Bucket: limit.For("k"), Amount: 3, Ceiling: 9, CeilingAt: toTime(at(-10))},
			at(-10), Never,
		},
		{"the longest wait", record(0, MaxTime-1), Op{Bucket: limit.For("k"), Amount: 3}, noon, time.Duration(MaxTime-1-noon) * time.Microsecond},
		{"a block for ever", record(0, MaxTime), Op{Bucket: limit.For("k"), Amount: 3}, noon, Never},
		{
			"time since the last write leaks at the rate last written", record(9, 0),
			Op{Bucket: Limit{Capacity: 10, LeakRate: 2}.For("k"), Amount: 6},
			at(2), 1500 * time.Millisecond,
		},
	} {
		if got := c.r.Refusal(&c.op, c.clock, DefaultMaxSkew).RetryAfter; got != c.want {
			t.Errorf("RetryAfter is %v, want %v; why: %s", got, c.want, c.why)
		}
	}
}
