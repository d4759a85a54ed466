package store

import (
	"encoding"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

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
//	nobody, 0    Nobody
//	unlimited    Unlimited
//
// A period is one of package time, or has days of 24 hours and weeks: 30d, 2w. The error is
// [ErrInvalidLimit] and tells how to write a limit.
func ParseLimit(s string) (Limit, error) {
	switch s {
	case textNobody, "0":
		return Nobody, nil
	case textUnlimited:
		return Unlimited, nil
	}
	l, err := parseLimit(s)
	if err != nil {
		return Limit{}, fmt.Errorf("brim: %w: %q: %w; write 100/1h, 100@0.5 (leaks 0.5 per second), %s or %s",
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
	if rest != "" && strings.Trim(rest, "0123456789.") == rest { // a unit without a number
		rest = "1" + rest
	}
	period, err := duration.Parse(rest)
	if err == nil && period <= 0 {
		err = fmt.Errorf("the period must be positive")
	}
	return Over(capacity, period), err
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
// of seconds gives the same leak rate, else with the leak rate. It returns [ErrInvalidLimit] if l is
// invalid.
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
