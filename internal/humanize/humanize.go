// Package humanize writes amounts, times and keys for people, in terminals and on pages.
package humanize

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/brimgo/brim/internal/duration"
	"github.com/brimgo/brim/store"
)

// Span writes a duration. It rounds up, so that a caller who waits for the printed time waits
// long enough.
func Span(d time.Duration) string {
	switch {
	case d >= store.Never:
		return "never"
	case d >= 2*duration.Day:
		d = roundUp(d, time.Minute)
		return strings.TrimSuffix(fmt.Sprintf("%dd%s", d/duration.Day, duration.Short(d%duration.Day)), "0s")
	case d >= time.Minute:
		return duration.Short(roundUp(d, time.Second))
	case d >= time.Millisecond:
		return roundUp(d, time.Millisecond).String()
	}
	return d.String()
}

// SecondsOrNull returns a duration as JSON has it: in seconds, or null for [store.Never].
func SecondsOrNull(d time.Duration) *float64 {
	if d >= store.Never {
		return nil
	}
	s := d.Seconds()
	return &s
}

// roundUp rounds d up to a multiple of to.
func roundUp(d, to time.Duration) time.Duration {
	if rest := d % to; rest > 0 && d <= math.MaxInt64-to {
		d += to - rest
	}
	return d
}

// Clock writes a time in local time, rounded up to a second. It leaves out the date if that
// is the date of now.
func Clock(t, now time.Time) string {
	if whole := t.Truncate(time.Second); whole.Before(t) {
		t = whole.Add(time.Second)
	}
	t, now = t.Local(), now.Local()
	if t.YearDay() == now.YearDay() && t.Year() == now.Year() {
		return t.Format(time.TimeOnly)
	}
	return t.Format(time.DateTime)
}

// least is the smallest amount that Units writes in digits: the smallest leak rate.
const least = 1e-12

// Units writes an amount without an exponent: a whole number in full, and another number to six
// decimals, or to six digits below a millionth.
func Units(f float64) string {
	decimals := 6
	switch a := math.Abs(f); {
	case f == math.Trunc(f):
		return strconv.FormatFloat(f, 'f', -1, 64)
	case a < least:
		return fmt.Sprintf("%s%.12f", map[bool]string{true: "below ", false: "above -"}[f > 0], least)
	case a < 1e-6:
		decimals -= int(math.Floor(math.Log10(a))) + 1
	}
	return strings.TrimRight(strings.TrimRight(strconv.FormatFloat(f, 'f', decimals, 64), "0"), ".")
}

// Count writes a number of things: "1 bucket", "2 entries". one is the word for a single thing.
func Count[N ~int | ~int64 | ~uint64](n N, one string) string {
	if n == 1 {
		return "1 " + one
	}
	if stem, found := strings.CutSuffix(one, "y"); found && stem != "ke" {
		return fmt.Sprint(n) + " " + stem + "ies"
	}
	return fmt.Sprint(n) + " " + one + "s"
}

// Key returns the key in quotes if it contains characters that could break a table or
// control a terminal.
func Key(key string) string {
	if Line(key) != key {
		return strconv.Quote(key)
	}
	return key
}

// Line returns a text with escapes in the place of line breaks, of characters that could control a
// terminal, and of bytes that are not UTF-8.
func Line(text string) string {
	if utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return text
	}
	var b strings.Builder
	for len(text) > 0 {
		r, n := utf8.DecodeRuneInString(text)
		if c := text[:n]; r == utf8.RuneError && n == 1 || !unicode.IsPrint(r) {
			quoted := strconv.Quote(c)
			b.WriteString(quoted[1 : len(quoted)-1])
		} else {
			b.WriteString(c)
		}
		text = text[n:]
	}
	return b.String()
}
