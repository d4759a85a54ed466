package spend

import "time"

// Period is the length of a [Calendar] rule's periods.
type Period uint8

// The periods of a [Calendar] rule.
const (
	Day Period = iota + 1
	Week
	Month
	Year
)

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

// first returns the first date of the period that d is in.
func (p Period) first(d date, week time.Weekday) date {
	switch p {
	case Week:
		back := (int(d.utc().Weekday()) - int(week) + 7) % 7
		return dateOf(date{d.year, d.month, d.day - back}.utc())
	case Month:
		return date{d.year, d.month, 1}
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
func (p Period) next(d date) date {
	switch p {
	case Week:
		d.day += 7
	case Month:
		d.month++
	case Year:
		d.year++
	default:
		d.day++
	}
	return dateOf(d.utc())
}

// begins returns the first instant after which the local date is never again
// earlier than d.
//
// If clocks jump over midnight, that instant lies after midnight. If clocks are
// set back across midnight, the date begins, is left, and begins again. So begins
// looks at all stretches of time with one offset around the day, and returns the
// end of the last time that belongs to an earlier date.
func (d date) begins(zone *time.Location) time.Time {
	const far = 50 * time.Hour // more than any offset from UTC and any jump
	midnight := d.utc()
	end := midnight.Add(far)
	begins := midnight.Add(-far)
	for t := begins; t.Before(end); {
		local := t.In(zone)
		_, offset := local.Zone()
		_, until := local.ZoneBounds()
		if until.IsZero() || until.After(end) {
			until = end
		}
		// In this stretch, times before reached belong to an earlier date.
		if reached := midnight.Add(-time.Duration(offset) * time.Second); reached.After(t) {
			begins = reached
			if until.Before(reached) {
				begins = until
			}
		}
		t = until
	}
	return begins
}

// periodAt returns the start of the period that contains now, and the start of
// the next period. All times are microseconds since the Unix epoch.
func (r *Rule) periodAt(now int64) (start, end int64) {
	d := r.period.first(dateOf(time.UnixMicro(now).In(r.zone)), r.week)
	start = d.begins(r.zone).UnixMicro()
	for start > now { // clocks will leave the date once more, so now belongs to an earlier period
		before := date{d.year, d.month, d.day - 1}
		d = r.period.first(dateOf(before.utc()), r.week)
		start = d.begins(r.zone).UnixMicro()
	}
	return start, r.period.next(d).begins(r.zone).UnixMicro()
}
