package caller

import (
	"net/http"
	"strings"
	"time"
)

// RetryAfter parses Retry-After: a number of seconds or a date (RFC 9110, section 10.2.3). The
// number may have decimals, which the RFC does not know and providers send. A date is compared with
// the Date of the answer, so that the server's clock may differ from this machine's.
func RetryAfter(h http.Header) (time.Duration, bool) {
	value := h.Get("Retry-After")
	if strings.Trim(value, "0123456789.") == "" { // no sign and no exponent
		after, err := time.ParseDuration(value + "s")
		return after, err == nil
	}
	then, err := http.ParseTime(value)
	if err != nil {
		return 0, false
	}
	now, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		now = time.Now()
	}
	return max(0, then.Sub(now)), true
}
