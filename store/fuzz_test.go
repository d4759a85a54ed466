package store

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/brimgo/brim/internal/differ"
)

// FuzzFill fills a record with two valid operations, one after the other, and tests the
// promises of every fill: a valid record, no units from nowhere, refusals that change nothing, and
// waits that are exact.
func FuzzFill(f *testing.F) {
	f.Add(8.0, 0.0, 10.0, 1.0, 5.0, 0.0, uint8(0), 0.0, int64(0), int64(2_000_000))
	f.Add(0.25, 0.01, 0.3, 0.1, 0.1, 0.0, uint8(1), 0.2, int64(-60_000_000), int64(333))
	f.Add(6.0, 3.0, 10.0, 0.0, 2.0, -3.0, uint8(2), 0.0, int64(-1), int64(0))
	f.Add(float64(1<<52), 0.0, float64(1<<53), 1e-12, 2.0, 0.0, uint8(0), 0.0, int64(3600_000_000), int64(1))
	f.Add(float64(1<<51), 17.0, 0x1p50, 8e-12, 2.0, -91.0, uint8(2), 76.0, int64(3600_000_005), int64(1)) // ends within the rounding
	f.Add(9.99, 0.0, 9.99, 0.7, 9.99, 0.0, uint8(1), 7.5, int64(-1<<40), int64(1<<40))
	f.Add(9.99, 0.0, 9.99, 0.7, 9.99, 0.0, uint8(1), 22.5, int64(-1<<40), int64(1<<40)) // a ceiling above the capacity
	f.Fuzz(func(t *testing.T, level, held, capacity, rate, amount, hold float64, mode uint8,
		ceiling float64, elapsed, later int64,
	) {
		op := Op{
			Bucket: Limit{Capacity: capacity, LeakRate: rate}.For("k"),
			Amount: amount, Hold: hold, Mode: Mode(mode % 3), Ceiling: ceiling,
		}
		r := Record{Level: level, Held: held, Time: noon, Limit: op.Limit}
		if op.Validate() != nil || r.Validate() != nil || level > MaxAmount || held > MaxAmount ||
			elapsed < -1<<50 || elapsed > 1<<50 || later < 0 || later > 1<<50 {
			return
		}
		clock := noon + elapsed
		checkFill(t, &r, op, clock)
		checkFill(t, &r, op, clock+later)
	})
}

func checkFill(t *testing.T, r *Record, op Op, clock int64) {
	t.Helper()
	before := *r
	ask := op
	ask.Mode = Ask
	asked, askEffect, _ := r.Fill(&ask, clock, DefaultMaxSkew)
	if *r != before || askEffect != 0 {
		t.Fatalf("an Ask changed the record, effect %v\n%s", askEffect, differ.Fields(*r, before))
	}
	st, effect, err := r.Fill(&op, clock, DefaultMaxSkew)
	if op.Mode == IfFits && (asked.Accepted != st.Accepted || asked.RetryAfter != st.RetryAfter) {
		t.Fatalf("an Ask, against the fill:\n%s", differ.Fields(asked, st))
	}
	if err != nil {
		if !errors.Is(err, ErrNotHeld) || *r != before {
			t.Fatalf("%v, and the record changed:\n%s", err, differ.Fields(*r, before))
		}
		return
	}
	if effect&Write == 0 && *r != before {
		t.Fatalf("effect %v without Write, but the record changed:\n%s", effect, differ.Fields(*r, before))
	}
	if err := r.Validate(); err != nil {
		t.Fatalf("%+v became %+v: %v", before, *r, err)
	}
	for _, x := range []float64{r.Level, r.Held, st.Level, st.Held, st.Spilled, st.Remaining()} {
		if !(x >= 0 && x <= 4*MaxAmount) {
			t.Fatalf("%v is not an amount: %+v, %+v", x, *r, st)
		}
	}
	ulp := math.Nextafter(before.Level+before.Held+op.Capacity+math.Abs(op.Amount)+math.Abs(op.Hold), math.Inf(1))
	ulp -= before.Level + before.Held + op.Capacity + math.Abs(op.Amount) + math.Abs(op.Hold)
	read := before.State(op.Limit, clock, DefaultMaxSkew)
	if read.Level > before.Level {
		t.Fatalf("level %v rose to %v without a fill", before.Level, read.Level)
	}
	n, rim := op.Amount+op.Hold, op.Capacity
	if op.Ceiling != 0 {
		rim = op.Ceiling
	}
	switch {
	case st.Accepted != (st.RetryAfter == 0):
		t.Fatalf("%+v: want a RetryAfter if and only if the call is not Accepted", st)
	case op.Mode == IfFits && !st.Accepted && effect&Skewed == 0 && *r != before:
		t.Fatalf("a refusal changed the record:\n%s", differ.Fields(*r, before))
	case st.Accepted && math.Abs(st.Level-max(0, read.Level+op.Amount)) > 2*ulp:
		t.Fatalf("an accepted amount of %v changed the level from %v to %v", op.Amount, read.Level, st.Level)
	case st.Accepted && op.Mode != Always && n != 0 && read.Level+read.Held+n > rim:
		t.Fatalf("amount %v and hold %v were accepted by %+v", op.Amount, op.Hold, read)
	case op.Mode == Clamp && math.Abs(read.Level+op.Amount-st.Level-st.Spilled) > 2*ulp:
		t.Fatalf("a Fillup of %v into level %v left %v and spilled %v", op.Amount, read.Level, st.Level, st.Spilled)
	case st.Held != before.Held && math.Abs(st.Held-before.Held-op.Hold) > 2*ulp &&
		(st.Held != 0 || math.Abs(before.Held+op.Hold) > op.Capacity*0x1p-40):
		t.Fatalf("a hold of %v changed the held units from %v to %v", op.Hold, before.Held, st.Held)
	}
	if st.RetryAfter == 0 || st.RetryAfter == Never || op.Mode == Clamp {
		return
	}
	for wait, want := range map[time.Duration]bool{st.RetryAfter: true, st.RetryAfter - time.Microsecond: false} {
		then := *r
		if st, _, err := then.Fill(&op, clock+wait.Microseconds(), DefaultMaxSkew); err != nil || st.Accepted != want {
			t.Fatalf("after %v: %+v, %v; want accepted = %v", wait, st, err, want)
		}
	}
}
