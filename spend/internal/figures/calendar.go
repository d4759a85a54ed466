package figures

import "time"

// Period is the length of the periods of a rule.
type Period uint8

// The periods of rules.
const (
	Day Period = iota + 1
	Week
	Month
	Year
)

// Anchor tells when the periods of a rule begin.
type Anchor struct {
	Week  time.Weekday  // of the first day of a week
	Day   int           // of the month: the first day of a month, or its last where there is none
	Clock time.Duration // the local time at which periods begin on their first day
}

// Midnight is the Anchor of a rule that names none.
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
func (a Anchor) first(p Period, d date) date {
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

// longest returns more than the length of any period in any zone.
func (p Period) longest() time.Duration {
	const day = 24 * time.Hour
	return [...]time.Duration{Day: 3 * day, Week: 9 * day, Month: 33 * day, Year: 368 * day}[p]
}

// next returns the first date of the period after the one that starts on d.
func (a Anchor) next(p Period, d date) date {
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

// begins returns the first instant after which local time is never again before the Anchor's time
// of the date d.
//
// If clocks jump over that time, the instant lies after the jump. If clocks are set back across it,
// the time comes, is left, and comes again. So begins looks at all stretches of time with one
// offset around the day, and returns the end of the last that has a time before.
func (a Anchor) begins(d date, zone *time.Location) time.Time {
	const far = 50 * time.Hour // more than any offset from UTC and any jump
	start := d.utc().Add(a.Clock)
	end := start.Add(far)
	begins := start.Add(-far)
	for t := begins; t.Before(end); {
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
			begins = reached
			if until.Before(reached) {
				begins = until
			}
		}
		t = until
	}
	return begins
}

// PeriodAt returns the start of the period that contains now, and the start of
// the next period. All times are microseconds since the Unix epoch.
func (r *Rule) PeriodAt(now int64) (start, end int64) {
	a := r.Anchor
	t := time.UnixMicro(now).In(r.Zone)
	_, offset := t.Zone()
	local := t.UTC().Add(time.Duration(offset)*time.Second - a.Clock) // a day of the rule is a date of this
	d := a.first(r.Period, dateOf(local))
	start = a.begins(d, r.Zone).UnixMicro()
	for start > now { // clocks will leave the date once more, so now belongs to an earlier period
		before := date{d.year, d.month, d.day - 1}
		d = a.first(r.Period, dateOf(before.utc()))
		start = a.begins(d, r.Zone).UnixMicro()
	}
	return start, a.begins(a.next(r.Period, d), r.Zone).UnixMicro()
}
