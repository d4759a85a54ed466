package store

import (
	"encoding"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/brimgo/brim/internal/calendar"
	"github.com/brimgo/brim/internal/duration"
)

// Texts of the limits that are not a capacity and a leak rate.
const (
	textNobody    = "nobody"
	textUnlimited = "unlimited"
)

var (
	_ encoding.TextMarshaler   = Limit{}
	_ encoding.TextUnmarshaler = (*Limit)(nil)
	_ encoding.TextMarshaler   = Bucket{}
	_ encoding.TextUnmarshaler = (*Bucket)(nil)
)

// ParseLimit reads a limit from a text:
//
//	100/1h       capacity 100; a full bucket drains in an hour, as with Over(100, time.Hour)
//	100/h        the same
//	100@0.5      capacity 100; 0.5 units leak per second
//	100@0        capacity 100; nothing leaks
//	100/day@Europe/Berlin         100 in each calendar day of the zone, as with Per
//	100/week,sunday@UTC           weeks that start on Sunday
//	100/month,15,06:00@Asia/Tokyo months that start on the 15th at 06:00
//	nobody, 0    Nobody
//	unlimited    Unlimited
//
// A period is one of package time, or has days of 24 hours and weeks: 30d, 2w. A calendar period is
// hour, day, week, month or year, and has a zone. A process keeps each kind of calendar period for
// ever, 65,536 at most, so do not read such texts from strangers. The error is [ErrInvalidLimit]
// and tells how to write a limit.
func ParseLimit(s string) (Limit, error) {
	switch s {
	case textNobody, "0":
		return Nobody, nil
	case textUnlimited:
		return Unlimited, nil
	}
	l, err := parseLimit(s)
	if err != nil {
		return Limit{}, fmt.Errorf("brim: %w: %q: %w; write 100/1h, 100@0.5 (leaks 0.5 per second), 100/day@UTC, %s or %s",
			ErrInvalidLimit, s, err, textNobody, textUnlimited)
	}
	return l, l.Validate()
}

func parseLimit(s string) (Limit, error) {
	at := strings.IndexAny(s, "/@")
	if at < 0 {
		return Limit{}, fmt.Errorf("it has neither a period nor a leak rate")
	}
	capacity, err := number(s[:at])
	if err != nil {
		return Limit{}, err
	}
	rest := s[at+1:]
	if s[at] == '@' {
		rate, err := number(rest)
		return Limit{Capacity: capacity, LeakRate: rate}, err
	}
	if period, zone, calendar := cutPeriod(rest); calendar {
		return parsePer(capacity, period, zone)
	}
	if rest != "" && strings.Trim(rest, "0123456789.") == rest { // a unit without a number
		rest = "1" + rest
	}
	period, err := duration.Parse(rest)
	if err == nil && period <= 0 {
		err = fmt.Errorf("the period must be positive")
	}
	return Over(capacity, period), err
}

// cutPeriod cuts a calendar period from its zone. It reports whether the text is that of a period,
// with or without a zone.
func cutPeriod(text string) (period, zone string, calendar bool) {
	period, zone, calendar = strings.Cut(text, "@")
	name, _, _ := strings.Cut(period, ",")
	return period, zone, calendar || name != "" && slices.Contains(units[:], name)
}

// parsePer reads a quota of the calendar.
func parsePer(capacity float64, period, zone string) (Limit, error) {
	parts := strings.Split(period, ",")
	unit := slices.Index(units[:], parts[0])
	switch {
	case zone == "":
		return Limit{}, fmt.Errorf("a calendar period needs a zone: write 100/%s@UTC for a calendar %[1]s, or 100/24h for 24 hours",
			parts[0])
	case unit < 1:
		return Limit{}, fmt.Errorf("%q is no calendar period; that is hour, day, week, month or year", parts[0])
	}
	location, err := time.LoadLocation(zone)
	if err != nil || zone == "Local" {
		return Limit{}, fmt.Errorf("%q is no zone; that is UTC, or a name such as Europe/Berlin", zone)
	}
	l := Per(capacity, Period(unit), location)
	for _, part := range parts[1:] {
		if l, err = starting(l, Period(unit), part); err != nil {
			return Limit{}, err
		}
	}
	return l, nil
}

// starting sets the start of a quota's periods by a part of its text.
func starting(l Limit, unit Period, part string) (Limit, error) {
	for day := time.Sunday; day <= time.Saturday; day++ {
		if unit == Week && part == strings.ToLower(day.String()) {
			return l.WeekStarting(day), nil
		}
	}
	if day, err := strconv.Atoi(part); err == nil && unit == Month && day >= 1 && day <= 31 {
		return l.MonthStarting(day), nil
	}
	for _, layout := range [...]string{"15:04", "15:04:05"} { // Parse takes a fraction of a second as well
		if at, err := time.Parse(layout, part); err == nil && unit != Hour {
			return l.DayStarting(at.Sub(time.Date(at.Year(), at.Month(), at.Day(), 0, 0, 0, 0, time.UTC))), nil
		}
	}
	return Limit{}, fmt.Errorf("a %s cannot start on %q; write 100/week,sunday@UTC, 100/month,15@UTC or 100/day,06:00@UTC",
		units[unit], part)
}

// text returns the text of the periods, as parsePer reads it.
func (k *kind) text() string {
	s := units[k.unit]
	if k.unit == calendar.Week && k.Week != calendar.Midnight.Week {
		s += "," + strings.ToLower(k.Week.String())
	}
	if k.unit == calendar.Month && k.Day != calendar.Midnight.Day {
		s += "," + strconv.Itoa(k.Day)
	}
	if k.Clock != 0 {
		layout := "15:04"
		if k.Clock%time.Minute != 0 {
			layout = "15:04:05.999999"
		}
		s += "," + time.Time{}.Add(k.Clock).Format(layout)
	}
	return s + "@" + k.zone
}

// number reads a number that is not negative. It refuses the texts of infinity, NaN and
// hexadecimal numbers.
func number(s string) (float64, error) {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || strings.Trim(s, "0123456789.e+-") != "" || math.Signbit(f) {
		return 0, fmt.Errorf("%q is not a number from 0 to 2^53", s)
	}
	return f, nil
}

// MarshalText writes l as [ParseLimit] reads it, without loss: with a period where a whole number
// of seconds gives the same leak rate, else with the leak rate. It returns [ErrInvalidLimit] if l
// is invalid.
func (l Limit) MarshalText() ([]byte, error) {
	if err := l.Validate(); err != nil {
		return nil, err
	}
	return []byte(l.text()), nil
}

func (l Limit) text() string {
	switch l {
	case Nobody:
		return textNobody
	case Unlimited:
		return textUnlimited
	}
	capacity := strconv.FormatFloat(l.Capacity, 'f', -1, 64)
	if l.Calendar() {
		return capacity + "/" + l.periods().kind.text()
	}
	if s := math.Round(l.Capacity / l.LeakRate); s >= 1 && s < maxWait/1e6 {
		if period := time.Duration(s) * time.Second; Over(l.Capacity, period) == l {
			return capacity + "/" + duration.Short(period)
		}
	}
	return capacity + "@" + strconv.FormatFloat(l.LeakRate, 'g', -1, 64)
}

// UnmarshalText reads a text by [ParseLimit].
func (l *Limit) UnmarshalText(text []byte) error {
	parsed, err := ParseLimit(string(text))
	if err == nil {
		*l = parsed
	}
	return err
}

// MarshalText writes the limit, a space and the key. It returns an error if b is invalid.
func (b Bucket) MarshalText() ([]byte, error) {
	if err := b.Validate(); err != nil {
		return nil, err
	}
	return []byte(b.Limit.text() + " " + b.Key), nil
}

// UnmarshalText reads a text that MarshalText has written.
func (b *Bucket) UnmarshalText(text []byte) error {
	limit, key, _ := strings.Cut(string(text), " ")
	l, err := ParseLimit(limit)
	if err != nil {
		return err
	}
	if err := ValidateKey(key); err != nil {
		return err
	}
	*b = l.For(key)
	return nil
}
