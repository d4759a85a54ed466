package main

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
)

const day = 24 * time.Hour

// duration is a flag's value, with days and weeks beside what time.ParseDuration reads.
type duration time.Duration

func (d *duration) String() string     { return d.std().String() }
func (d *duration) Type() string       { return "duration" }
func (d *duration) std() time.Duration { return time.Duration(*d) }

func (d *duration) Set(s string) error {
	v, err := parseDuration(s)
	*d = duration(v)
	return err
}

// parseDuration reads 90s, 15m, 24h, 30d, 2w, and sums of them such as 1d12h. A day is 24 hours. It is never negative.
func parseDuration(s string) (time.Duration, error) {
	const digits, units = "0123456789.", "nuµμmshdw"
	var sum time.Duration
	rest := s
	for first := true; first || rest != ""; first = false {
		unitAt := len(rest) - len(strings.TrimLeft(rest, digits))
		unitEnd := len(rest) - len(strings.TrimLeft(rest[unitAt:], units))
		part, err := parsePart(rest[:unitAt], rest[unitAt:unitEnd])
		if err != nil {
			return 0, fmt.Errorf("%q is no duration: %w", s, err)
		}
		if sum > math.MaxInt64-part {
			return 0, fmt.Errorf("%q is too long: the longest is about 292 years", s)
		}
		sum, rest = sum+part, rest[unitEnd:]
	}
	return sum, nil
}

func parsePart(amount, unit string) (time.Duration, error) {
	switch {
	case amount == "":
		return 0, errors.New("write a number and a unit, like 90s, 15m, 24h or 30d")
	case unit == "":
		return 0, errors.New("a unit is missing after a number, like 90s, 15m, 24h or 30d")
	case unit == "d" || unit == "w":
		hours, err := time.ParseDuration(amount + "h")
		times := time.Duration(24)
		if unit == "w" {
			times *= 7
		}
		if err != nil || hours > math.MaxInt64/times {
			return 0, fmt.Errorf("%s%s is not a number of days or weeks, or too many", amount, unit)
		}
		return hours * times, nil
	}
	d, err := time.ParseDuration(amount + unit)
	if err != nil {
		return 0, errors.New("units are ns, us, ms, s, m, h, d and w, and the longest is about 292 years")
	}
	return d, nil
}

// span writes a duration for people: rounded up, so that whoever waits that long has waited long enough.
func span(d time.Duration) string {
	switch {
	case d == math.MaxInt64:
		return "never"
	case d >= 2*day:
		d = roundUp(d, time.Minute)
		return strings.TrimSuffix(fmt.Sprintf("%dd%s", d/day, short(d%day)), "0s")
	case d >= time.Minute:
		return short(roundUp(d, time.Second))
	case d >= time.Millisecond:
		return roundUp(d, time.Millisecond).String()
	}
	return d.String()
}

// short writes 2h0m0s as 2h.
func short(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

func roundUp(d, to time.Duration) time.Duration {
	if rest := d % to; rest > 0 && d <= math.MaxInt64-to {
		d += to - rest
	}
	return d
}

// clockTime writes the time of day, in local time and rounded up to a second, with the date where it is not today.
func clockTime(t, now time.Time) string {
	if whole := t.Truncate(time.Second); whole.Before(t) {
		t = whole.Add(time.Second)
	}
	t, now = t.Local(), now.Local()
	if t.YearDay() == now.YearDay() && t.Year() == now.Year() {
		return t.Format(time.TimeOnly)
	}
	return t.Format(time.DateTime)
}
