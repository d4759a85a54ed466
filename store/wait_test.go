package store

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/brimgo/brim/internal/differ"
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
			if accepted(min(MaxTime, clock+maxWait) - 1) {
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

// TestRefusal: the state is that of the refusal by Fill. A wrapper may also ask for the wait of an
// amount that fits by now.
func TestRefusal(t *testing.T) {
	limit := Limit{Capacity: 10, LeakRate: 1}
	record := func(level float64, until int64) Record {
		return Record{Level: level, Time: noon, Limit: limit, BlockedUntil: until}
	}
	hold, three := Op{Bucket: limit.For("k"), Hold: 3}, Op{Bucket: limit.For("k"), Amount: 3}
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
		{"the level leaks to make room", record(9, 0), three, noon, 2 * time.Second},
		{"some has leaked by now", record(9, 0), three, at(1), time.Second},
		{"a microsecond is left", record(9, 0), three, at(1) + 999_999, time.Microsecond},
		{"the level has leaked", record(9, 0), three, at(5), 0},
		{"the clock is behind", record(9, 0), three, at(-10), 12 * time.Second},
		{"the clock is too far behind", record(9, 0), three, at(-1000), 2 * time.Second},
		{"no wait helps", record(9, 0), Op{Bucket: limit.For("k"), Amount: 11}, noon, Never},
		{"the rest of a block", record(1, at(7)), three, at(1), 6 * time.Second},
		{"a block that ends now is over", record(1, at(7)), Op{Bucket: limit.For("k"), Amount: 11}, at(7), Never},
		{"a block that ends at the stored time is over", record(1, noon), three, at(-10), 0},
		{"a block has ended by the stored time", record(9, noon), three, at(-10), 12 * time.Second},
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
		{"the longest wait", record(0, noon+maxWait-1), three, noon, (maxWait - 1) * time.Microsecond},
		{"a wait of 146 years", record(0, noon+maxWait), three, noon, Never},
		{"a block for ever", record(0, MaxTime), three, noon, Never},
		{
			"a block keeps the old rate", record(9, at(4)),
			Op{Bucket: Limit{Capacity: 10, LeakRate: 2}.For("k"), Amount: 6},
			at(2), 3 * time.Second,
		},
		{
			"time since the last write leaks at the rate last written", record(9, 0),
			Op{Bucket: Limit{Capacity: 10, LeakRate: 2}.For("k"), Amount: 6},
			at(2), 1500 * time.Millisecond,
		},
		{
			"a question leaves the rate last written", record(9, 0),
			Op{Bucket: Limit{Capacity: 10, LeakRate: 2}.For("k"), Amount: 6, Mode: Ask},
			at(2), 3 * time.Second,
		},
		{
			"more than the capacity leaves the rate last written", record(9, 0),
			Op{Bucket: Limit{Capacity: 10, LeakRate: 2}.For("k"), Amount: 11},
			at(2), Never,
		},
		{
			"units that went in by the limit of a period that was over leave at once",
			Record{Level: 9, Time: noon, Limit: Limit{Capacity: 10, LeakRate: -float64(at(-5))}},
			Op{Bucket: limit.For("k"), Amount: 6, Mode: Ask},
			noon, time.Microsecond,
		},
	} {
		got := c.r.Refusal(&c.op, c.clock, DefaultMaxSkew)
		if got.RetryAfter != c.want {
			t.Errorf("RetryAfter is %v, want %v; why: %s", got.RetryAfter, c.want, c.why)
		}
		filled, _, err := c.r.Fill(&c.op, c.clock, DefaultMaxSkew)
		if d := differ.Fields(got, filled); err != nil || !filled.Accepted && d != "" {
			t.Errorf("against the state that Fill returns, with %v:\n%s\nwhy: %s", err, d, c.why)
		}
	}
}
