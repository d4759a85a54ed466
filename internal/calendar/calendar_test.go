package calendar

import (
	"slices"
	"testing"
	"time"
	_ "time/tzdata" // the table must not depend on the machine

	"github.com/brimgo/brim/internal/seed"
)

func TestPeriods(t *testing.T) {
	for _, c := range []struct {
		name, why  string
		zone       string
		period     Unit
		week       time.Weekday
		day        int // of the month, if months start on another than the first
		clock      time.Duration
		at         string // an instant, RFC 3339
		start, end string
	}{
		{
			name: "a day",
			why:  "a day lasts from midnight to midnight in its zone",
			zone: "Europe/Berlin", period: Day,
			at: "2026-01-15T23:30:00Z", start: "2026-01-15T23:00:00Z", end: "2026-01-16T23:00:00Z",
		},
		{
			name: "an hour", why: "an hour begins at a full hour of local time", zone: "Asia/Kolkata", period: Hour,
			at: "2026-01-15T23:45:00Z", start: "2026-01-15T23:30:00Z", end: "2026-01-16T00:30:00Z",
		},
		{
			name: "an hour that comes twice", why: "clocks go back by an hour", zone: "Europe/Berlin", period: Hour,
			at: "2026-10-25T01:30:00Z", start: "2026-10-25T00:00:00Z", end: "2026-10-25T02:00:00Z",
		},
		{
			name: "an hour after a missing one", why: "clocks go forward by an hour", zone: "Europe/Berlin", period: Hour,
			at: "2026-03-29T01:00:00Z", start: "2026-03-29T01:00:00Z", end: "2026-03-29T02:00:00Z",
		},
		{
			name: "an hour before a missing one", why: "an hour ends where the next begins", zone: "Europe/Berlin", period: Hour,
			at: "2026-03-29T00:59:59.999999Z", start: "2026-03-29T00:00:00Z", end: "2026-03-29T01:00:00Z",
		},
		{
			name: "an hour with a half that comes twice", why: "clocks go back by half an hour", zone: "Australia/Lord_Howe", period: Hour,
			at: "2026-04-04T15:10:00Z", start: "2026-04-04T14:00:00Z", end: "2026-04-04T15:30:00Z",
		},
		{
			name: "a day of 23 hours",
			why:  "clocks go forward by an hour",
			zone: "Europe/Berlin", period: Day,
			at: "2026-03-29T10:00:00Z", start: "2026-03-28T23:00:00Z", end: "2026-03-29T22:00:00Z",
		},
		{
			name: "a day of 25 hours", why: "clocks go back by an hour", zone: "Europe/Berlin", period: Day,
			at: "2026-10-25T00:30:00Z", start: "2026-10-24T22:00:00Z", end: "2026-10-25T23:00:00Z",
		},
		{
			name: "the first instant",
			why:  "a period contains its start",
			zone: "Europe/Berlin", period: Day,
			at: "2026-10-24T22:00:00Z", start: "2026-10-24T22:00:00Z", end: "2026-10-25T23:00:00Z",
		},
		{
			name: "the last instant",
			why:  "a period does not contain its end",
			zone: "Europe/Berlin", period: Day,
			at: "2026-10-24T21:59:59.999999Z", start: "2026-10-23T22:00:00Z", end: "2026-10-24T22:00:00Z",
		},
		{
			name: "a missing midnight",
			why:  "in Sao Paulo 2018-11-04 began at 01:00",
			zone: "America/Sao_Paulo", period: Day,
			at: "2018-11-04T03:00:00Z", start: "2018-11-04T03:00:00Z", end: "2018-11-05T02:00:00Z",
		},
		{
			name: "the day before a missing midnight",
			why:  "the day ends where the next begins",
			zone: "America/Sao_Paulo", period: Day,
			at: "2018-11-04T02:59:59Z", start: "2018-11-03T03:00:00Z", end: "2018-11-04T03:00:00Z",
		},
		{
			name: "a repeated hour before midnight",
			why:  "in Sao Paulo clocks went back to 23:00 at midnight, so 2018-02-17 had 25 hours",
			zone: "America/Sao_Paulo", period: Day,
			at: "2018-02-18T02:30:00Z", start: "2018-02-17T02:00:00Z", end: "2018-02-18T03:00:00Z",
		},
		{
			name: "after a repeated hour",
			why:  "the next day begins when clocks do not leave its date again",
			zone: "America/Sao_Paulo", period: Day,
			at: "2018-02-18T03:00:00Z", start: "2018-02-18T03:00:00Z", end: "2018-02-19T03:00:00Z",
		},
		{
			name: "a date that is entered and left",
			why:  "in St. John's clocks went back from 00:01 to 23:01, and that minute belongs to the day before",
			zone: "America/St_Johns", period: Day,
			at: "2010-11-07T02:30:30Z", start: "2010-11-06T02:30:00Z", end: "2010-11-07T03:30:00Z",
		},
		{
			name: "the second midnight of a date",
			why:  "from then on clocks do not leave the date again",
			zone: "America/St_Johns", period: Day,
			at: "2010-11-07T03:30:00Z", start: "2010-11-07T03:30:00Z", end: "2010-11-08T03:30:00Z",
		},
		{
			name: "a date that did not exist",
			why:  "Samoa went from 2011-12-29 to 2011-12-31",
			zone: "Pacific/Apia", period: Day,
			at: "2011-12-30T09:59:59Z", start: "2011-12-29T10:00:00Z", end: "2011-12-30T10:00:00Z",
		},
		{
			name: "after a date that did not exist",
			why:  "the skipped date has no period",
			zone: "Pacific/Apia", period: Day,
			at: "2011-12-30T10:00:00Z", start: "2011-12-30T10:00:00Z", end: "2011-12-31T10:00:00Z",
		},
		{
			name: "a day that clocks enter by a jump",
			why:  "in Nuuk clocks went from 23:00 on 2024-03-30 to 00:00 on the next day",
			zone: "America/Nuuk", period: Day,
			at: "2024-03-31T01:00:00Z", start: "2024-03-31T01:00:00Z", end: "2024-04-01T01:00:00Z",
		},
		{
			name: "February of a leap year", why: "it has 29 days", zone: "UTC", period: Month,
			at: "2028-02-29T12:00:00Z", start: "2028-02-01T00:00:00Z", end: "2028-03-01T00:00:00Z",
		},
		{
			name: "February of 2100", why: "2100 is no leap year", zone: "UTC", period: Month,
			at: "2100-02-28T12:00:00Z", start: "2100-02-01T00:00:00Z", end: "2100-03-01T00:00:00Z",
		},
		{
			name: "a week", why: "weeks start on Monday", zone: "UTC", period: Week, week: time.Monday,
			at: "2026-03-01T12:00:00Z", start: "2026-02-23T00:00:00Z", end: "2026-03-02T00:00:00Z",
		},
		{
			name: "a week from Sunday",
			why:  "WeekStarting sets the first day",
			zone: "UTC", period: Week, week: time.Sunday,
			at: "2026-03-01T12:00:00Z", start: "2026-03-01T00:00:00Z", end: "2026-03-08T00:00:00Z",
		},
		{
			name: "a day from four o'clock",
			why:  "a purchase at three belongs to the evening before",
			zone: "Europe/Berlin", period: Day, clock: 4 * time.Hour,
			at: "2026-01-15T02:59:59Z", start: "2026-01-14T03:00:00Z", end: "2026-01-15T03:00:00Z",
		},
		{
			name: "a day from a time that is missing",
			why:  "in Berlin clocks went from 02:00 to 03:00, where the day from 02:30 starts",
			zone: "Europe/Berlin", period: Day, clock: 150 * time.Minute,
			at: "2026-03-29T01:00:00Z", start: "2026-03-29T01:00:00Z", end: "2026-03-30T00:30:00Z",
		},
		{
			name: "a day from a time that comes twice",
			why:  "it starts at the second 02:30, after which clocks do not go back before it",
			zone: "Europe/Berlin", period: Day, clock: 150 * time.Minute,
			at: "2026-10-25T00:45:00Z", start: "2026-10-24T00:30:00Z", end: "2026-10-25T01:30:00Z",
		},
		{
			name: "a week from Wednesday at noon", why: "the time is that of the first day",
			zone: "UTC", period: Week, week: time.Wednesday, clock: 12 * time.Hour,
			at: "2026-03-04T11:59:59Z", start: "2026-02-25T12:00:00Z", end: "2026-03-04T12:00:00Z",
		},
		{
			name: "a month from the 31st", why: "February has no such day, so it starts on its last",
			zone: "UTC", period: Month, day: 31,
			at: "2026-02-28T00:00:00Z", start: "2026-02-28T00:00:00Z", end: "2026-03-31T00:00:00Z",
		},
		{
			name: "a month from the 30th in a leap year", why: "29 February is the last day",
			zone: "UTC", period: Month, day: 30,
			at: "2028-02-28T12:00:00Z", start: "2028-01-30T00:00:00Z", end: "2028-02-29T00:00:00Z",
		},
		{
			name: "a month from a date that did not exist",
			why:  "Samoa went from 2011-12-29 to 2011-12-31, where the month starts",
			zone: "Pacific/Apia", period: Month, day: 30,
			at: "2011-12-30T10:00:00Z", start: "2011-12-30T10:00:00Z", end: "2012-01-29T10:00:00Z",
		},
		{
			name: "a year from six o'clock", why: "the hour counts for every period",
			zone: "Asia/Tokyo", period: Year, clock: 6 * time.Hour,
			at: "2025-12-31T20:59:59Z", start: "2024-12-31T21:00:00Z", end: "2025-12-31T21:00:00Z",
		},
		{
			name: "a leap year after 2037", zone: "Europe/Berlin", period: Year,
			why: "the time zone database has rules for such years, and package time ends their last day before it begins",
			at:  "2040-06-01T12:00:00Z", start: "2039-12-31T23:00:00Z", end: "2040-12-31T23:00:00Z",
		},
		{
			name: "the last day of such a year", why: "as the year", zone: "America/New_York", period: Day,
			at: "2040-12-31T12:00:00Z", start: "2040-12-31T05:00:00Z", end: "2041-01-01T05:00:00Z",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			zone, err := time.LoadLocation(c.zone)
			if err != nil {
				t.Fatal(err)
			}
			r := Periods{Unit: c.period, Zone: zone, Anchor: Anchor{c.week, Midnight.Day, c.clock}}
			if c.day != 0 {
				r.Anchor.Day = c.day
			}
			at, err := time.Parse(time.RFC3339Nano, c.at)
			if err != nil {
				t.Fatal(err)
			}
			start, end := r.At(at.UnixMicro())
			show := func(us int64) string { return time.UnixMicro(us).UTC().Format(time.RFC3339Nano) }
			if show(start) != c.start || show(end) != c.end {
				t.Errorf("the period is %s to %s; want %s to %s: %s", show(start), show(end), c.start, c.end, c.why)
			}
		})
	}
}

// zones have every kind of change of clocks since 1971: whole days, half hours, minutes around
// midnight, and two offsets for half of the year.
var zones = []string{
	"Europe/Berlin", "America/Sao_Paulo", "America/St_Johns", "Pacific/Apia", "Pacific/Kwajalein",
	"Asia/Manila", "Africa/Cairo", "Asia/Gaza", "America/Havana", "Antarctica/Troll", "Asia/Kathmandu",
	"UTC", "America/New_York", "Australia/Lord_Howe", "Africa/Casablanca", "Europe/London",
	"America/Nuuk", "Asia/Tehran", "Pacific/Chatham", "Africa/Monrovia",
}

// starts are times at which days start.
var starts = [...]time.Duration{0, 30 * time.Minute, 150 * time.Minute, 23*time.Hour + 59*time.Minute}

// anchored are rules of every period with every kind of start.
func anchored(zone *time.Location) (rules []Periods) {
	for _, p := range []Unit{Day, Week, Month, Year} {
		for _, clock := range starts {
			r := Periods{Unit: p, Zone: zone, Anchor: Anchor{Midnight.Week, Midnight.Day, clock}}
			switch p {
			case Week:
				sundays := r
				sundays.Anchor.Week = time.Sunday
				rules = append(rules, r, sundays)
			case Month:
				for _, day := range []int{Midnight.Day, 15, 29, 30, 31} {
					r.Anchor.Day = day
					rules = append(rules, r)
				}
			default:
				rules = append(rules, r)
			}
		}
	}
	return rules
}

// TestPeriodsOfAnOracle compares the periods with those of another computation: at an instant, the
// earliest local time from then on, less the time at which days start, tells the date by which the
// instant counts. The oracle goes back from 2036 in steps of five minutes, in which all changes of
// clocks since 1972 lie, and keeps that minimum. A period ends where the next one starts, and lasts
// no longer than Prune keeps its entries.
func TestPeriodsOfAnOracle(t *testing.T) {
	const step = 5 * time.Minute
	years := seed.Attempts(2, 65) // some of them by day
	for i, name := range zones {
		zone, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		from := time.Date(1971+(i*7)%(66-years), 1, 1, 0, 0, 0, 0, time.UTC)
		at := from.AddDate(years, 0, 0)
		rules := anchored(zone)
		seen := make([]struct {
			start int64
			name  string // of the period, by the oracle
		}, len(rules))
		earliest := at.Add(48 * time.Hour)
		var days [len(starts)]int // of the earliest local time, less each start of a day
		var latest int64          // start of a period that was seen
		for ; at.After(from); at = at.Add(-step) {
			_, offset := at.In(zone).Zone()
			if local := at.Add(time.Duration(offset) * time.Second); local.Before(earliest) {
				earliest = local
			}
			now := days
			for k, clock := range starts {
				now[k] = earliest.Add(-clock).YearDay()
			}
			us := at.UnixMicro()
			if now == days && us >= latest {
				continue // in the same periods
			}
			before := days
			days, latest = now, 0
			for k := range rules {
				r, last := &rules[k], &seen[k]
				if c := slices.Index(starts[:], r.Anchor.Clock); now[c] == before[c] && us >= last.start {
					latest = max(latest, last.start)
					continue
				}
				name := label(r, earliest)
				start, end := r.At(us)
				if begun := last.name == "" || start < last.start; begun != (name != last.name) || end <= us ||
					last.name != "" && begun && end != last.start || end-start > r.Unit.Longest().Microseconds() {
					t.Fatalf("%s, period %d from %+v: %v is in the period from %v to %v, before that from %v; by the oracle in those of %q and %q",
						zone, r.Unit, r.Anchor, at, time.UnixMicro(start).UTC(), time.UnixMicro(end).UTC(),
						time.UnixMicro(last.start).UTC(), name, last.name)
				}
				last.start, last.name = start, name
				latest = max(latest, start)
			}
		}
	}
}

// label names the period of a rule that a local time belongs to, by counting back day by day to one
// on which a period starts.
func label(r *Periods, local time.Time) string {
	d := local.Add(-r.Anchor.Clock)
	if r.Unit == Year {
		return d.Format("2006")
	}
	for ; ; d = d.AddDate(0, 0, -1) {
		last := d.AddDate(0, 0, 1).Day() == 1
		if r.Unit == Day || r.Unit == Week && d.Weekday() == r.Anchor.Week ||
			r.Unit == Month && (d.Day() == r.Anchor.Day || last && d.Day() < r.Anchor.Day) {
			return d.Format(time.DateOnly)
		}
	}
}
