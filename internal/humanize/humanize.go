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

// Units writes an amount: a whole number in full, another number to six decimals.
func Units(f float64) string {
	if f == math.Trunc(f) || math.Abs(f) < 1e-6 {
		if math.Abs(f) > 0 && math.Abs(f) < 1 {
			return strconv.FormatFloat(f, 'g', 6, 64)
		}
		return strconv.FormatFloat(f, 'f', -1, 64)
	}
	return strings.TrimRight(strings.TrimRight(strconv.FormatFloat(f, 'f', 6, 64), "0"), ".")
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
