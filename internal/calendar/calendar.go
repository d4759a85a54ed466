// Package calendar divides time into the hours, days, weeks, months and years of a zone. Limits of
// package store and rules of package spend count by them.
package calendar

import "time"

// Unit is the length of periods.
type Unit uint8

// The units.
const (
	Day Unit = iota + 1
	Week
	Month
	Year
	Hour
)

// Periods are the periods of a zone, one after the other. A period starts at the first instant
// after which local time never returns to an earlier date, or to an earlier time of its first day.
// If clocks jump over midnight, the period starts after the jump. If clocks repeat the hour before
// midnight, the period starts at the second midnight; an hour that clocks repeat is a period of two
// hours.
type Periods struct {
	Unit Unit
	Anchor
	Zone *time.Location
}

// Anchor tells when periods begin.
type Anchor struct {
	Week  time.Weekday  // of the first day of a week
	Day   int           // of the month: the first day of a month, or its last where there is none
	Clock time.Duration // the local time at which periods begin on their first day
}

// Midnight is the Anchor of periods that name none.
var Midnight = Anchor{Week: time.Monday, Day: 1}

// date is a local date.
type date struct {
	year  int
	month time.Month
	day   int
}

func dateOf(t time.Time) date {
	y, m, d := t.Date()
	return date{y, m, d}
}

// utc returns the midnight of the date in UTC. It normalizes days and months that
// are out of range.
func (d date) utc() time.Time { return time.Date(d.year, d.month, d.day, 0, 0, 0, 0, time.UTC) }

// month returns the day on which a month starts that starts on that day where it has one. It
// normalizes months that are out of range.
func (a Anchor) month(year int, month time.Month) date {
	last := date{year, month + 1, 0}.utc()
	return date{last.Year(), last.Month(), min(a.Day, last.Day())}
}

// first returns the first date of the period that d is in.
func (a Anchor) first(p Unit, d date) date {
	switch p {
	case Week:
		back := (int(d.utc().Weekday()) - int(a.Week) + 7) % 7
		return dateOf(date{d.year, d.month, d.day - back}.utc())
	case Month:
		if starts := a.month(d.year, d.month); starts.day <= d.day {
			return starts
		}
		return a.month(d.year, d.month-1)
	case Year:
		return date{d.year, time.January, 1}
	}
	return d
}

// Longest returns more than the length of any period in any zone.
func (p Unit) Longest() time.Duration {
	const day = 24 * time.Hour
	return [...]time.Duration{Day: 3 * day, Week: 9 * day, Month: 33 * day, Year: 368 * day, Hour: 3 * day}[p]
}

// next returns the first date of the period after the one that starts on d.
func (a Anchor) next(p Unit, d date) date {
	switch p {
	case Week:
		d.day += 7
	case Month:
		return a.month(d.year, d.month+1)
	case Year:
		d.year++
	default:
		d.day++
	}
	return dateOf(d.utc())
}

// begins returns the first instant after which the local time of a zone is never again before
// start, which is a local time written as one of UTC.
//
// If clocks jump over that time, the instant lies after the jump. If clocks are set back across it,
// the time comes, is left, and comes again. So begins looks at all stretches of time with one
// offset around the day, and returns the end of the last that has a time before.
func begins(start time.Time, zone *time.Location) time.Time {
	const far = 50 * time.Hour // more than any offset from UTC and any jump
	end := start.Add(far)
	first := start.Add(-far)
	for t := first; t.Before(end); {
		local := t.In(zone)
		_, offset := local.Zone()
		_, until := local.ZoneBounds()
		if until.IsZero() || until.After(end) {
			until = end
		}
		// On 31 December of leap years after 2037, ZoneBounds may return an end that has passed.
		if !until.After(t) {
			until = t.Add(15 * time.Minute) // clocks change at a multiple of it
		}
		// In this stretch, times before reached belong to an earlier date.
		if reached := start.Add(-time.Duration(offset) * time.Second); reached.After(t) {
			first = reached
			if until.Before(reached) {
				first = until
			}
		}
		t = until
	}
	return first
}

// At returns the start of the period that contains now, and the start of the next period. All times
// are microseconds since the Unix epoch.
func (p *Periods) At(now int64) (start, end int64) {
	t := time.UnixMicro(now).In(p.Zone)
	_, offset := t.Zone()
	local := t.UTC().Add(time.Duration(offset) * time.Second)
	if p.Unit == Hour {
		return p.hour(now, local.Truncate(time.Hour))
	}
	d := p.first(p.Unit, dateOf(local.Add(-p.Clock))) // a day of the periods is a date of this
	start = p.begins(d)
	for start > now { // clocks will leave the date once more, so now belongs to an earlier period
		before := date{d.year, d.month, d.day - 1}
		d = p.first(p.Unit, dateOf(before.utc()))
		start = p.begins(d)
	}
	return start, p.begins(p.next(p.Unit, d))
}

// hour is At for hours. The local time is the full hour before now.
func (p *Periods) hour(now int64, local time.Time) (start, end int64) {
	for start = begins(local, p.Zone).UnixMicro(); start > now; start = begins(local, p.Zone).UnixMicro() {
		local = local.Add(-time.Hour)
	}
	for end = start; end <= now; end = begins(local, p.Zone).UnixMicro() { // clocks can jump over hours
		local = local.Add(time.Hour)
	}
	return start, end
}

// begins returns the start of the periods' day d in microseconds.
func (p *Periods) begins(d date) int64 { return begins(d.utc().Add(p.Clock), p.Zone).UnixMicro() }
