package trace

import (
	"errors"
	"strconv"
	"strings"
	"time"
)

// The times of a trace lie in the years 0 to 9999, which RFC 3339 can write.
const (
	minSeconds = -62167219200
	maxSeconds = 253402300799
)

var errTime = errors.New(
	"its time is neither RFC 3339, like 1995-08-01T06:00:00Z, nor seconds since 1970, like 807256800.25")

// parseTime reads RFC 3339, or seconds since the Unix epoch with or without a fraction. It
// returns microseconds since the epoch, and cuts off the digits after a microsecond.
func parseTime(s string) (int64, error) {
	if strings.Contains(s, ":") {
		t, err := time.Parse(time.RFC3339Nano, s)
		if err != nil {
			return 0, errTime
		}
		return t.UnixMicro(), nil
	}
	// The digits are read as whole numbers. A double of 1.7e9 seconds is not exact to a
	// microsecond.
	whole, fraction, _ := strings.Cut(s, ".")
	seconds, err := strconv.ParseInt(whole, 10, 64)
	if err != nil || strings.Trim(fraction, "0123456789") != "" {
		return parseTimeFloat(s)
	}
	micros, _ := strconv.ParseInt((fraction + "000000")[:6], 10, 64) // the text is digits
	if strings.HasPrefix(whole, "-") {
		micros = -micros
	}
	if seconds < minSeconds || seconds > maxSeconds {
		return 0, errors.New("its time is outside the years 0 to 9999; count it in seconds since 1970")
	}
	return seconds*1e6 + micros, nil
}

// parseTimeFloat reads seconds that are not plain digits, for instance 8.07e8.
func parseTimeFloat(s string) (int64, error) {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || !(f >= minSeconds && f <= maxSeconds) {
		return 0, errTime
	}
	return int64(f * 1e6), nil
}
