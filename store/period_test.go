package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // every machine must have the time zones
)

func zone(t *testing.T, name string) *time.Location {
	t.Helper()
	at, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// TestQuotaTexts: a quota is written as it is read, and two texts of the same quota are one limit.
func TestQuotaTexts(t *testing.T) {
	berlin := zone(t, "Europe/Berlin")
	for _, c := range []struct {
		text  string
		want  Limit
		write string // if it differs from text
	}{
		{"100/hour@UTC", Per(100, Hour, time.UTC), ""},
		{"0.5/day@Europe/Berlin", Per(0.5, Day, berlin), ""},
		{"100/week@UTC", Per(100, Week, time.UTC), ""},
		{"100/week,monday@UTC", Per(100, Week, time.UTC), "100/week@UTC"},
		{"100/week,sunday@UTC", Per(100, Week, time.UTC).WeekStarting(time.Sunday), ""},
		{"100/month,1,00:00@UTC", Per(100, Month, time.UTC), "100/month@UTC"},
		{"10000/month,31,06:30@Europe/Berlin", Per(10_000, Month, berlin).MonthStarting(31).DayStarting(6*time.Hour + 30*time.Minute), ""},
		{"1/day,23:59:59.999999@UTC", Per(1, Day, time.UTC).DayStarting(24*time.Hour - time.Microsecond), ""},
		{"1/year,04:00@UTC", Per(1, Year, time.UTC).DayStarting(4 * time.Hour).WeekStarting(time.Friday), ""},
		{"0/month@UTC", Nobody, "nobody"},
	} {
		got, err := ParseLimit(c.text)
		if err != nil || got != c.want {
			t.Errorf("%q is %v, %v; want %v", c.text, got, err, c.want)
			continue
		}
		if c.write == "" {
			c.write = c.text
		}
		if text, err := got.MarshalText(); err != nil || string(text) != c.write {
			t.Errorf("%q is written as %q, %v; want %q", c.text, text, err, c.write)
		}
		var again Limit
		if data, err := json.Marshal(got); err != nil || json.Unmarshal(data, &again) != nil || again != got {
			t.Errorf("%q as JSON is %s, %v, and read again %v", c.text, data, err, again)
		}
	}
}

func TestQuotaTextErrors(t *testing.T) {
	for text, says := range map[string]string{
		"100/month": "write 100/month@UTC for a calendar month", "100/day": "100/24h", "100/week,sunday": "needs a zone",
		"100/month@": "needs a zone", "100/month@Local": "is no zone", "100/month@Mars/Olympus": "is no zone",
		"100/fortnight@UTC": "no calendar period", "100/@UTC": "no calendar period", "100/1h@UTC": "no calendar period",
		"100/month,0@UTC": "cannot start", "100/month,32@UTC": "cannot start", "100/week,someday@UTC": "cannot start",
		"100/hour,06:00@UTC": "cannot start", "100/day,24:00@UTC": "cannot start", "100/day,sunday@UTC": "cannot start",
		"1e16/month@UTC": "capacity", "-1/month@UTC": "",
	} {
		if l, err := ParseLimit(text); !errors.Is(err, ErrInvalidLimit) || !strings.Contains(err.Error(), says) {
			t.Errorf("%q is %v, %v; want ErrInvalidLimit that says %q", text, l, err, says)
		}
	}
}

func TestQuotaInvalid(t *testing.T) {
	month := Per(1, Month, time.UTC)
	for name, l := range map[string]Limit{
		"no zone": Per(1, Month, nil), "no period": Per(1, 0, time.UTC), "unknown period": Per(1, 99, time.UTC),
		"the machine's zone": Per(1, Month, zone(t, "Local")), "a zone without a name": Per(1, Month, time.FixedZone("", 3600)),
		"day 0": month.MonthStarting(0), "day 32": month.MonthStarting(32), "weekday": month.WeekStarting(7),
		"negative start": month.DayStarting(-1), "start of a day": month.DayStarting(24 * time.Hour), "nanoseconds": month.DayStarting(1),
		"a start of a rate": Over(1, time.Hour).MonthStarting(1), "negative capacity": Per(-1, Month, time.UTC),
		"leak rate": {Capacity: 1, LeakRate: 1, period: month.period}, "end of a period": {Capacity: 1, LeakRate: -1e15},
	} {
		if err := l.Validate(); !errors.Is(err, ErrInvalidLimit) {
			t.Errorf("%s: %v; want ErrInvalidLimit", name, err)
		}
		op := Op{Bucket: l.For("k"), Amount: 1}
		if err := op.Validate(); name != "end of a period" && !errors.Is(err, ErrInvalidLimit) {
			t.Errorf("%s: an operation is %v; want ErrInvalidLimit", name, err)
		}
	}
	if l := Per(0, Month, time.UTC).MonthStarting(7); l != Nobody {
		t.Errorf("a capacity of 0: %v; want Nobody", l)
	}
	if err := month.Validate(); err != nil {
		t.Error(err)
	}
	if got := (State{Level: 4, Capacity: 10, Empties: time.Unix(1_800_000_000, 0)}).String(); got != "4 of 10 units, empties at 2027-01-15T08:00:00Z" {
		t.Error(got)
	}
}

func TestSetPeriod(t *testing.T) {
	at := func(text string) time.Time {
		parsed, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			t.Fatal(err)
		}
		return parsed
	}
	for _, c := range []struct{ limit, at, begins, ends string }{
		{"1/month@UTC", "2026-01-31T23:59:59.999999Z", "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"},
		{"1/month@UTC", "2026-02-01T00:00:00Z", "2026-02-01T00:00:00Z", "2026-03-01T00:00:00Z"},
		{"1/month,31@UTC", "2026-02-27T00:00:00Z", "2026-01-31T00:00:00Z", "2026-02-28T00:00:00Z"},
		{"1/day@Europe/Berlin", "2026-03-29T12:00:00Z", "2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z"},
		{"1/hour@Europe/Berlin", "2026-10-25T00:30:00Z", "2026-10-25T00:00:00Z", "2026-10-25T02:00:00Z"},
		{"1/year@UTC", "1970-01-01T00:00:00Z", "1970-01-01T00:00:00Z", "1971-01-01T00:00:00Z"},
		{"1/year@UTC", "1969-12-31T23:59:59Z", "", ""},
		{"1/day@America/New_York", "1970-01-01T00:00:00Z", "", ""},
		{"1/year@UTC", "2255-01-01T00:00:00Z", "", ""},
		{"1/year@UTC", "0001-01-01T00:00:00Z", "", ""},
	} {
		limit, err := ParseLimit(c.limit)
		if err != nil {
			t.Fatal(err)
		}
		op := Op{Bucket: limit.For("k"), Amount: 1}
		err = op.SetPeriod(at(c.at))
		if c.ends == "" {
			if !errors.Is(err, ErrInvalidLimit) || op.Limit != limit {
				t.Errorf("%s at %s: %+v, %v; want ErrInvalidLimit and no change", c.limit, c.at, op, err)
			}
			continue
		}
		want := Op{Bucket: Limit{Capacity: 1, LeakRate: -float64(at(c.ends).UnixMicro())}.For("k"), Amount: 1, Begins: at(c.begins).UnixMicro()}
		if err != nil || op != want || op.Validate() != nil {
			t.Errorf("%s at %s: %+v, %v, %v; want %+v", c.limit, c.at, op, err, op.Validate(), want)
		}
	}
	op := Op{Bucket: Over(1, time.Hour).For("k")}
	if before := op; op.SetPeriod(time.Time{}) != nil || op != before {
		t.Errorf("a rate: %+v", op)
	}
	for _, op := range []Op{
		{Bucket: Limit{Capacity: 1, LeakRate: -2e15}.For("k"), Begins: 2e15},
		{Bucket: Limit{Capacity: 1, LeakRate: -2e15}.For("k"), Begins: -1},
		{Bucket: Limit{Capacity: 1, LeakRate: -1.5e9 - 0.5}.For("k")},
		{Bucket: Limit{Capacity: 1, LeakRate: -2 * MaxTime}.For("k")},
		{Bucket: Limit{Capacity: 1, LeakRate: 1}.For("k"), Begins: 1},
		{Bucket: Per(1, Month, time.UTC).For("k")},
	} {
		if err := op.Validate(); !errors.Is(err, ErrInvalidLimit) {
			t.Errorf("%+v: %v; want ErrInvalidLimit", op, err)
		}
	}
}

// TestMostPeriods: the table of kinds is bounded, and the ones that are in it stay usable.
func TestMostPeriods(t *testing.T) {
	kept := kinds.all.Load()
	t.Cleanup(func() {
		for k := range kinds.byKind.Range {
			if p, _ := kinds.byKind.Load(k); kept == nil || int(p.(*periods).number) > len(*kept) {
				kinds.byKind.Delete(k)
			}
		}
		kinds.all.Store(kept)
	})
	first := Per(1, Day, time.UTC)
	var full []*periods
	if all := kinds.all.Load(); all != nil {
		full = append(full, *all...)
	}
	for len(full) < maxPeriods-1 {
		full = append(full, full[0])
	}
	kinds.all.Store(&full)
	last, over := first.DayStarting(time.Microsecond), first.DayStarting(2*time.Microsecond)
	if err := last.Validate(); err != nil {
		t.Errorf("kind %d: %v", maxPeriods, err)
	}
	if err := over.Validate(); !errors.Is(err, ErrInvalidLimit) || !strings.Contains(err.Error(), fmt.Sprint(maxPeriods)) {
		t.Errorf("one kind too many: %v", err)
	}
	if first.DayStarting(time.Microsecond) != last || Per(1, Day, time.UTC) != first {
		t.Error("a kind that is in use is another one now")
	}
}
