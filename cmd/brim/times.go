package main

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/brimgo/brim/internal/duration"
)

// span writes a duration. It rounds up, so that a caller who waits for the printed time waits
// long enough.
func span(d time.Duration) string {
	switch {
	case d == math.MaxInt64:
		return "never"
	case d >= 2*duration.Day:
		d = roundUp(d, time.Minute)
		return strings.TrimSuffix(fmt.Sprintf("%dd%s", d/duration.Day, short(d%duration.Day)), "0s")
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

// roundUp rounds d up to a multiple of to.
func roundUp(d, to time.Duration) time.Duration {
	if rest := d % to; rest > 0 && d <= math.MaxInt64-to {
		d += to - rest
	}
	return d
}

// clockTime writes a time in local time, rounded up to a second. It leaves out the date if that
// is the date of now.
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
