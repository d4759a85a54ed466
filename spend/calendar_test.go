package spend

import (
	"testing"
	"time"
	_ "time/tzdata" // the table must not depend on the machine
)

func TestPeriods(t *testing.T) {
	for _, c := range []struct {
		name, why  string
		zone       string
		period     Period
		week       time.Weekday
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
			name: "29 February", why: "29 February is a day of its own", zone: "UTC", period: Day,
			at: "2028-02-29T12:00:00Z", start: "2028-02-29T00:00:00Z", end: "2028-03-01T00:00:00Z",
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
			name: "the end of a month of 31 days",
			why:  "the next month has fewer days",
			zone: "Europe/Berlin", period: Month,
			at: "2026-01-31T22:59:59Z", start: "2025-12-31T23:00:00Z", end: "2026-01-31T23:00:00Z",
		},
		{
			name: "a month with a change of clocks",
			why:  "March in Berlin lacks an hour",
			zone: "Europe/Berlin", period: Month,
			at: "2026-03-31T21:59:59Z", start: "2026-02-28T23:00:00Z", end: "2026-03-31T22:00:00Z",
		},
		{
			name: "a year", why: "it begins at midnight in its zone", zone: "Asia/Tokyo", period: Year,
			at: "2025-12-31T15:00:00Z", start: "2025-12-31T15:00:00Z", end: "2026-12-31T15:00:00Z",
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
			name: "a week over the turn of the year",
			why:  "a week that lies in two years has seven days, too",
			zone: "UTC", period: Week, week: time.Monday,
			at: "2027-01-01T00:00:00Z", start: "2026-12-28T00:00:00Z", end: "2027-01-04T00:00:00Z",
		},
		{
			name: "a week with a change of clocks",
			why:  "it has 167 hours",
			zone: "Europe/Berlin", period: Week, week: time.Monday,
			at: "2026-03-29T12:00:00Z", start: "2026-03-22T23:00:00Z", end: "2026-03-29T22:00:00Z",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			zone, err := time.LoadLocation(c.zone)
			if err != nil {
				t.Fatal(err)
			}
			r := Calendar("r", Money{1, "EUR"}, c.period, zone).WeekStarting(c.week)
			at, err := time.Parse(time.RFC3339Nano, c.at)
			if err != nil {
				t.Fatal(err)
			}
			start, end := r.periodAt(at.UnixMicro())
			show := func(us int64) string { return time.UnixMicro(us).UTC().Format(time.RFC3339Nano) }
			if show(start) != c.start || show(end) != c.end {
				t.Errorf("the period is %s to %s; want %s to %s: %s", show(start), show(end), c.start, c.end, c.why)
			}
		})
	}
}

// Periods follow one another without a gap, in every zone, from 1990 to 2030.
func TestPeriodsAreContiguous(t *testing.T) {
	for _, name := range []string{
		"Europe/Berlin", "America/Sao_Paulo", "America/St_Johns", "Pacific/Apia", "Pacific/Kwajalein",
		"Asia/Manila", "Africa/Cairo",
		"Asia/Gaza", "America/Havana", "Antarctica/Troll", "Asia/Kathmandu", "UTC",
	} {
		zone, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range []Period{Day, Week, Month, Year} {
			r := Calendar("r", Money{1, "EUR"}, p, zone)
			at := time.Date(1990, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()
			_, end := r.periodAt(at)
			for n := 0; n < 4000 && end < time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro(); n++ {
				start, next := r.periodAt(end)
				before, last := r.periodAt(end - 1)
				if start != end || next <= end || last != end || before >= end {
					t.Fatalf("%s, period %d: at %v the period is %v to %v, and just before it ends at %v", name, p,
						time.UnixMicro(end).UTC(), time.UnixMicro(start).UTC(), time.UnixMicro(next).UTC(), time.UnixMicro(last).UTC())
				}
				end = next
			}
		}
	}
}
