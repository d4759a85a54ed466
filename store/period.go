package store

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/brimgo/brim/internal/calendar"
)

// Period is the length of the periods of a quota; see [Per].
type Period uint8

// The periods of quotas.
const (
	Day   = Period(calendar.Day)
	Week  = Period(calendar.Week)
	Month = Period(calendar.Month)
	Year  = Period(calendar.Year)
	Hour  = Period(calendar.Hour)
)

// units are the names of periods in texts.
var units = [...]string{Hour: "hour", Day: "day", Week: "week", Month: "month", Year: "year"}

// Per returns the quota of capacity units in each calendar hour, day, week, month or year of zone.
// Within a period nothing leaks. At its end the bucket is empty. The store's clock decides which
// period it is. Around the end of a period up to twice the capacity goes through in a short time.
//
// A week starts on Monday, a month on its first day, and every period but an hour at midnight,
// unless [Limit.WeekStarting], [Limit.MonthStarting] and [Limit.DayStarting] say otherwise. A
// period starts at the first instant after which local time never returns to an earlier date, or to
// an earlier time of its first day. If clocks repeat an hour, both together are one.
//
// The zone has a name that [time.LoadLocation] knows. A capacity of 0 is [Nobody]. [Limit.Validate]
// refuses the limit if an argument is out of range, or if the process uses more than 65,536 kinds
// of periods: a kind is the period, its zone and its start.
func Per(capacity float64, period Period, zone *time.Location) Limit {
	if zone == nil || zone.String() == "" || period == 0 || int(period) >= len(units) {
		return Limit{Capacity: capacity, special: invalidPeriod}
	}
	if capacity == 0 {
		return Nobody
	}
	return Limit{Capacity: capacity}.in(kind{calendar.Unit(period), calendar.Midnight, zone.String()})
}

// WeekStarting returns a quota whose weeks start on that day. It has no effect on other periods
// than [Week]. Of any limit that is no quota the result is invalid.
func (l Limit) WeekStarting(day time.Weekday) Limit {
	return l.starting(func(k *kind) bool {
		if k.unit == calendar.Week {
			k.Anchor.Week = day
		}
		return day >= time.Sunday && day <= time.Saturday
	})
}

// MonthStarting returns a quota whose months start on that day, from 1 to 31, or on their last day
// where they have no such day. It has no effect on other periods than [Month]. Of any limit that is
// no quota the result is invalid.
func (l Limit) MonthStarting(day int) Limit {
	return l.starting(func(k *kind) bool {
		if k.unit == calendar.Month {
			k.Anchor.Day = day
		}
		return day >= 1 && day <= 31
	})
}

// DayStarting returns a quota whose days, weeks, months or years start at that local time, in whole
// microseconds after midnight and below 24 hours: 4 * time.Hour is 04:00. It has no effect on a
// quota per hour. Of any limit that is no quota the result is invalid.
func (l Limit) DayStarting(clock time.Duration) Limit {
	return l.starting(func(k *kind) bool {
		if k.unit != calendar.Hour {
			k.Clock = clock
		}
		return clock >= 0 && clock < 24*time.Hour && clock%time.Microsecond == 0
	})
}

// starting returns the quota with the start that set sets and reports as valid.
func (l Limit) starting(set func(*kind) bool) Limit {
	if l == Nobody {
		return l // of a capacity of 0
	}
	if !l.Calendar() {
		return Limit{Capacity: l.Capacity, special: invalidPeriod}
	}
	k := l.periods().kind
	if !set(&k) {
		return Limit{Capacity: l.Capacity, special: invalidPeriod}
	}
	return l.in(k)
}

// Calendar reports whether l is a quota of calendar periods, made by [Per].
func (l Limit) Calendar() bool { return l.period != 0 }

// PeriodAt returns the beginning and the end of the period of a quota in which at is. Both are zero
// if l is not a quota.
func (l Limit) PeriodAt(at time.Time) (begins, ends time.Time) {
	if !l.Calendar() {
		return begins, ends
	}
	s := l.periods().at(at.UnixMicro())
	return toTime(s.begins), toTime(s.ends)
}

// kind is a kind of periods. Limits with equal kinds are equal.
type kind struct {
	unit calendar.Unit
	calendar.Anchor
	zone string
}

// periods are the periods of a kind.
type periods struct {
	kind   kind
	number uint32
	of     calendar.Periods
	last   atomic.Pointer[span] // the period that was asked for last
}

// span is a period, in microseconds since the Unix epoch.
type span struct{ begins, ends int64 }

// maxPeriods is the number of kinds that a process may use.
const maxPeriods = 1 << 16

// kinds are the kinds of periods that the process uses. A Limit has the number of its kind, from 1
// on, so that limits stay small and can be compared. Nothing is removed: limits are constants of a
// program, or of its configuration.
var kinds struct {
	sync.Mutex
	byKind sync.Map // from a kind to its *periods
	all    atomic.Pointer[[]*periods]
}

// in returns the limit with periods of that kind.
func (l Limit) in(k kind) Limit {
	l = Limit{Capacity: l.Capacity}
	if p, ok := kinds.byKind.Load(k); ok {
		l.period = p.(*periods).number
		return l
	}
	zone, err := time.LoadLocation(k.zone)
	if err != nil || k.zone == "Local" {
		l.special = invalidPeriod
		return l
	}
	kinds.Lock()
	defer kinds.Unlock()
	if p, ok := kinds.byKind.Load(k); ok { // another goroutine has come first
		l.period = p.(*periods).number
		return l
	}
	var all []*periods
	if known := kinds.all.Load(); known != nil {
		all = *known
	}
	if len(all) == maxPeriods {
		l.special = tooManyPeriods
		return l
	}
	p := &periods{kind: k, number: uint32(len(all) + 1), of: calendar.Periods{Unit: k.unit, Anchor: k.Anchor, Zone: zone}}
	all = append(all, p) // readers of the slice before see none of it
	kinds.all.Store(&all)
	kinds.byKind.Store(k, p)
	l.period = p.number
	return l
}

// periods returns the periods of a quota.
func (l Limit) periods() *periods { return (*kinds.all.Load())[l.period-1] }

// at returns the period in which now is. Most callers ask for the same period again.
func (p *periods) at(now int64) span {
	if s := p.last.Load(); s != nil && now >= s.begins && now < s.ends {
		return *s
	}
	begins, ends := p.of.At(now)
	s := span{begins, ends}
	p.last.Store(&s)
	return s
}

// SetPeriod gives an operation under a quota the form in which a store decides it, for the period
// in which at is: the LeakRate is the end of the period, negative and in microseconds since the
// Unix epoch, and Begins is its beginning. An operation under another limit stays as it is. A
// period that begins before 1970, or ends after [MaxTime], is [ErrInvalidLimit].
//
// A store whose clock is in another period answers with a [*PeriodError]. The caller then sets the
// period of each operation by its time, and asks again, as the Limiter does.
func (o *Op) SetPeriod(at time.Time) error {
	if !o.Calendar() {
		return nil
	}
	s := o.periods().at(at.UnixMicro())
	if s.begins < 0 || s.ends > MaxTime {
		return fmt.Errorf("brim: %w: a quota of the calendar has periods from 1970 to 2255; the clock shows %v",
			ErrInvalidLimit, at.UTC())
	}
	o.Limit, o.Begins = Limit{Capacity: o.Capacity, LeakRate: -float64(s.ends)}, s.begins
	return nil
}

// PeriodError is the answer to operations under quotas of the calendar of which one is not in the
// period that the store's clock is in. Nothing was applied.
type PeriodError struct {
	// Times has the bucket's time of each operation: the store's clock, or the time of the last
	// write if the clock is behind it. So two buckets can be in two periods, until the clock is as
	// far again.
	Times []time.Time
}

func (e *PeriodError) Error() string {
	return "brim: the period of an operation is not that of the store's clock"
}

// empties returns the time in microseconds at which a bucket under a quota empties, and whether the
// limit, in the form in which stores decide, is one.
func (l Limit) empties() (us int64, quota bool) { return int64(-l.LeakRate), l.LeakRate < 0 }

// SetLimit sets Capacity, LeakRate and Empties by a limit in the form in which a store decides. It
// is for backends and wrappers that make a State themselves.
func (s *State) SetLimit(l Limit) {
	s.Capacity, s.LeakRate, s.Empties = l.Capacity, l.LeakRate, time.Time{}
	if us, quota := l.empties(); quota {
		s.LeakRate, s.Empties = 0, toTime(us)
	}
}

// Limit returns the capacity and the rate of the state in the form in which a store decides, where
// a quota of the calendar has the end of its period as a negative LeakRate. It is the limit of the
// call only if the bucket leaks at the rate of the call.
func (s *State) Limit() Limit {
	if s.Empties.IsZero() {
		return Limit{Capacity: s.Capacity, LeakRate: s.LeakRate}
	}
	return Limit{Capacity: s.Capacity, LeakRate: -float64(s.Empties.UnixMicro())}
}

// times returns the times of the buckets of a transaction, and whether all operations under quotas
// are in their periods.
func (t Txn) times(recs []*Record, clock int64, maxSkew time.Duration) (times []time.Time, inside bool) {
	inside = true
	for i := range t {
		inside = inside && t[i].begun(recs[i].timeAt(clock, maxSkew))
	}
	if inside {
		return nil, true
	}
	for i := range t {
		times = append(times, toTime(recs[i].timeAt(clock, maxSkew)))
	}
	return times, false
}

// timeAt returns the bucket's time at a reading of the clock.
func (r *Record) timeAt(clock int64, maxSkew time.Duration) int64 {
	if r.Time-clock > maxSkew.Microseconds() {
		return clock
	}
	return max(r.Time, clock)
}

// anyPeriod as the Begins of an operation has it decided at any time, for waits.
const anyPeriod = math.MinInt64

// begun reports whether now is in the period of the operation, if it has one.
func (o *Op) begun(now int64) bool {
	ends, quota := o.empties()
	return !quota || o.Begins == anyPeriod || now >= o.Begins && now < ends
}
