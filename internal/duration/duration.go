// Package duration reads and writes durations as people write them: 90s, 15m, 24h, 30d, 2w.
package duration

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
)

// Day is 24 hours. A day of the calendar may be shorter or longer.
const Day = 24 * time.Hour

// Parse reads a duration such as 90s, 15m, 24h, 30d or 2w, or a sum such as 1d12h. Beside the
// units of [time.ParseDuration] it knows days of 24 hours and weeks of 7 days. A sign is an
// error, so the result is never negative.
func Parse(s string) (time.Duration, error) {
	const digits, units = "0123456789.", "nuµμmshdw"
	var sum time.Duration
	rest := s
	for first := true; first || rest != ""; first = false {
		unitAt := len(rest) - len(strings.TrimLeft(rest, digits))
		unitEnd := len(rest) - len(strings.TrimLeft(rest[unitAt:], units))
		part, err := parsePart(rest[:unitAt], rest[unitAt:unitEnd])
		if err != nil {
			return 0, fmt.Errorf("%q is not a duration: %w", s, err)
		}
		if sum > math.MaxInt64-part {
			return 0, fmt.Errorf("%q is too long: the longest is about 292 years", s)
		}
		sum, rest = sum+part, rest[unitEnd:]
	}
	return sum, nil
}

// parsePart reads one number with its unit.
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

// Value is a duration that a command line flag sets. *Value implements the Value interfaces of
// package flag and of github.com/spf13/pflag.
type Value time.Duration

// String returns the duration as [time.Duration] writes it.
func (v *Value) String() string { return v.Std().String() }

// Type returns the name of the type that a usage text shows.
func (v *Value) Type() string { return "duration" }

// Std returns the duration as the standard library's type.
func (v *Value) Std() time.Duration { return time.Duration(*v) }

// Set reads s by [Parse].
func (v *Value) Set(s string) error {
	d, err := Parse(s)
	*v = Value(d)
	return err
}

// Short writes 2h0m0s as 2h.
func Short(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
