package trace

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// The times of a trace lie in the years 0 to 9999, which RFC 3339 can write.
const (
	minSeconds = -62167219200
	maxSeconds = 253402300799
)

var errTime = errors.New("its time is neither RFC 3339, like 1995-08-01T06:00:00Z, nor a number since 1970")

// epoch is a unit of times that are numbers since 1970.
type epoch struct {
	name   string
	below  float64 // the magnitude below which a number is in this unit
	digits int     // of a microsecond behind the point; negative if the unit is smaller
	micros float64 // microseconds per unit
}

// epochs are the units, the largest first. Each reaches from the year 1973 to 5138: a number from
// 10^11 to 10^14 counts milliseconds. Seconds begin at 0.
var epochs = []epoch{
	{"seconds", 1e11, 6, 1e6},
	{"milliseconds", 1e14, 3, 1e3},
	{"microseconds", 1e17, 0, 1},
	{"nanoseconds", math.MaxInt64, -3, 1e-3},
}

// times reads the times of a trace. The first number sets the unit of all: a trace of one
// millisecond after the other must not jump when it passes a limit of magnitude.
type times struct{ unit atomic.Pointer[epoch] }

// parse reads RFC 3339, or a number since the Unix epoch with or without a fraction. It returns
// microseconds since the epoch, and cuts off the digits after a microsecond.
func (t *times) parse(s string) (int64, error) {
	if strings.Contains(s, ":") {
		at, err := time.Parse(time.RFC3339Nano, s)
		if err != nil {
			return 0, errTime
		}
		return at.UnixMicro(), nil
	}
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsNaN(v) {
		return 0, errTime
	}
	unit := t.unit.Load()
	first := unit == nil
	if first {
		for i := range epochs {
			if unit = &epochs[i]; math.Abs(v) < unit.below {
				break
			}
		}
	}
	if !(math.Abs(v) < unit.below) {
		if first {
			return 0, errRange
		}
		return 0, fmt.Errorf("its time is too large for %s since 1970, in which the first time is written", unit.name)
	}
	micros := unit.exact(s, v)
	if micros < minSeconds*1e6 || micros >= (maxSeconds+1)*1e6 {
		return 0, errRange
	}
	if first {
		t.unit.Store(unit)
	}
	return micros, nil
}

var errRange = errors.New("its time is outside the years 0 to 9999")

// exact returns the microseconds of a number v, whose text is s. It reads plain digits as whole
// numbers, because a double of 1.7e9 seconds is not exact to a microsecond.
func (e *epoch) exact(s string, v float64) int64 {
	whole, fraction, _ := strings.Cut(s, ".")
	n, err := strconv.ParseInt(whole, 10, 64)
	if err != nil || strings.Trim(fraction, "0123456789") != "" {
		return int64(v * e.micros)
	}
	if e.digits < 0 {
		return n / 1000
	}
	rest, _ := strconv.ParseInt("0"+(fraction + "000000")[:e.digits], 10, 64) // the text is digits
	if strings.HasPrefix(whole, "-") {
		rest = -rest
	}
	return n*int64(e.micros) + rest
}

// parseSeconds reads the seconds that a request took, like 0.125, as microseconds.
func parseSeconds(s string) (int64, bool) {
	if _, fraction, found := strings.Cut(s, "."); !found || fraction == "" {
		return 0, false
	}
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || !(v >= 0 && v < 1e9) {
		return 0, false
	}
	return int64(math.Round(v * 1e6)), true
}
