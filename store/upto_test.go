package store

import (
	"errors"
	"testing"
	"time"

	"github.com/brimgo/brim/internal/differ"
)

// TestUpTo takes parts of a bucket that has room for 5 of 10 units.
func TestUpTo(t *testing.T) {
	limit := Limit{Capacity: 10, LeakRate: 1}
	for _, c := range []struct {
		name        string
		level, held float64
		least, most float64
		taken       float64 // 0: refused
		wait        time.Duration
	}{
		{"all of it", 4, 1, 1, 3, 3, 0},
		{"as much as fits", 4, 1, 1, 9, 5, 0},
		{"exactly the least", 4, 1, 5, 9, 5, 0},
		{"whole units alone", 4.5, 1, 1, 9, 4, 0},
		{"less than the least", 4, 1, 6, 9, 0, time.Second},
		{"never the least beside what is held", 0, 6, 5, 9, 0, Never},
	} {
		r := Record{Level: c.level, Held: c.held, Time: noon, Limit: limit}
		op := Op{Bucket: limit.For("k"), Amount: c.most, Least: c.least, Mode: UpTo}
		st, effect, err := r.Fill(&op, noon, DefaultMaxSkew)
		want := State{
			Level: c.level + c.taken, Held: c.held, Capacity: 10, LeakRate: 1, Taken: c.taken, RetryAfter: c.wait,
			At: toTime(noon), Accepted: c.taken > 0, Full: c.level+c.held+c.taken == 10,
		}
		if d := differ.Fields(st, want); err != nil || d != "" || (effect != 0) != (c.taken > 0) {
			t.Errorf("%s: effect %v, %v\n%s", c.name, effect, err, d)
		}
	}
}

// TestQuotaOfRecord fills a bucket under a quota within its period, at its end and in another one.
func TestQuotaOfRecord(t *testing.T) {
	quota := Per(10, Hour, time.UTC)
	begins, ends := quota.PeriodAt(toTime(noon))
	if toTime(noon).Before(begins) || !ends.Equal(begins.Add(time.Hour)) {
		t.Fatalf("the period of %v is from %v to %v", toTime(noon), begins, ends)
	}
	op := Op{Bucket: quota.For("k"), Amount: 6}
	if err := op.SetPeriod(toTime(noon)); err != nil {
		t.Fatal(err)
	}
	r := NewRecord(noon)
	end := ends.UnixMicro()
	for _, c := range []struct {
		why      string
		clock    int64
		accepted bool
		level    float64
		wait     time.Duration
	}{
		{"it fits", noon, true, 6, 0},
		{"nothing leaks", end - 1, false, 6, time.Microsecond},
	} {
		st, _, err := r.Fill(&op, c.clock, DefaultMaxSkew)
		if err != nil || st.Accepted != c.accepted || st.Level != c.level || st.RetryAfter != c.wait || !st.Empties.Equal(ends) {
			t.Errorf("%s: %+v, %v; want accepted %v, level %v, RetryAfter %v", c.why, st, err, c.accepted, c.level, c.wait)
		}
	}
	_, _, err := r.Fill(&op, end, DefaultMaxSkew)
	if other, ok := errors.AsType[*PeriodError](err); !ok || len(other.Times) != 1 || !other.Times[0].Equal(ends) || other.Error() == "" {
		t.Errorf("in the next period: %v; want the time %v", err, ends)
	}
	if got := r.LevelAt(end); got != 0 {
		t.Errorf("the level at the end is %v; want 0", got)
	}
	// A drain by the limit last written, and a fill by none.
	drain := Op{Bucket: Bucket{Key: "k"}, Amount: -2, Mode: Always}
	if st, _, err := r.Fill(&drain, noon, DefaultMaxSkew); err != nil || st.Level != 4 || st.Drained != 2 {
		t.Errorf("a drain: %+v, %v; want level 4 and 2 drained", st, err)
	}
	none := NewRecord(noon)
	if _, _, err := none.Fill(&Op{Bucket: Bucket{Key: "k"}, Amount: 1, Mode: Always}, noon, DefaultMaxSkew); !errors.Is(err, ErrNotHeld) {
		t.Errorf("units under no limit: %v; want ErrNotHeld", err)
	}
}
