package caller

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// FuzzRetryAfter parses arbitrary header fields. No wait is negative.
func FuzzRetryAfter(f *testing.F) {
	const date = "Sun, 06 Nov 1994 08:49:37 GMT"
	for _, s := range []string{
		"120", "0", "-1", "4294967295", "4294967296", date, "Sunday, 06-Nov-94 08:50:00 GMT", "Sun Nov  6 08:50:00 1994", "", " 5",
	} {
		f.Add(s, date)
		f.Add(s, "")
	}
	f.Fuzz(func(t *testing.T, value, date string) {
		h := http.Header{"Retry-After": {value}, "Date": {date}}
		wait, ok := RetryAfter(h)
		if wait < 0 || !ok && wait != 0 {
			t.Errorf("Retry-After %q at %q: %v, %v", value, date, wait, ok)
		}
		if _, err := http.ParseTime(value); err == nil && !ok {
			t.Errorf("Retry-After %q at %q is a date, and was not understood", value, date)
		}
		if ok && strings.Trim(value, "0123456789") == "" && wait%time.Second != 0 {
			t.Errorf("Retry-After %q is %v; want whole seconds", value, wait)
		}
	})
}
