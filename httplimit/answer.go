package httplimit

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/brimgo/brim"
)

// details is a problem as RFC 9457 has it.
type details struct {
	Type     string   `json:"type,omitempty"` // absent is about:blank: the status says it all
	Title    string   `json:"title"`
	Status   int      `json:"status"`
	Detail   string   `json:"detail,omitempty"`
	Violated []string `json:"violated-policies,omitempty"`
}

// quotaExceeded is the problem type that the draft registers.
const quotaExceeded = "https://iana.org/assignments/http-problem-types#quota-exceeded"

func problem(w http.ResponseWriter, d details) {
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("Cache-Control", "no-store") // it is about this request only
	w.WriteHeader(d.Status)
	_ = json.NewEncoder(w).Encode(d) // who does not read the answer has the status
}

// fields writes what clients are told about a limit.
type fields struct {
	kind   Fields
	name   string // of the policy
	quoted string // the same as a structured field's string
	policy string // the field that does not change from answer to answer
}

func newFields(l brim.Limit, o *Options) (f fields, err error) {
	if o.Fields > XRateLimitFields {
		return f, fmt.Errorf("httplimit: Fields is %d; choose NoFields, DraftFields or XRateLimitFields", o.Fields)
	}
	f = fields{kind: o.Fields, name: o.Policy}
	if f.name == "" {
		f.name = "default"
	}
	unit := ""
	if f.quoted, err = quote("Policy", f.name); err == nil && o.Unit != "" {
		unit, err = quote("Unit", o.Unit)
	}
	if err != nil {
		return f, err
	}
	switch f.kind {
	case DraftFields:
		f.policy = f.quoted + ";q=" + integer(l.Capacity)
		if unit != "" {
			f.policy += ";qu=" + unit
		}
		if l.LeakRate > 0 {
			f.policy += ";w=" + integer(math.Ceil(l.Capacity/l.LeakRate))
		}
	case XRateLimitFields:
		f.policy = integer(l.Capacity)
	}
	return f, nil
}

// set tells where the client stands. Fields are set as the canonical form has them, which http.Header.Set would look up anew.
func (f *fields) set(h http.Header, st brim.State) {
	switch f.kind {
	case DraftFields:
		h["Ratelimit-Policy"] = []string{f.policy}
		left, more := quota(st)
		value := f.quoted + ";r=" + integer(left)
		if more > 0 {
			value += ";t=" + integer(more)
		}
		h["Ratelimit"] = []string{value}
	case XRateLimitFields:
		left, _ := quota(st)
		h["X-Ratelimit-Limit"] = []string{f.policy}
		h["X-Ratelimit-Remaining"] = []string{integer(left)}
		if empty := max(st.TimeToEmpty(), blockedFor(st)); empty != brim.Never {
			h["X-Ratelimit-Reset"] = []string{integer(wholeSeconds(empty))}
		}
	}
}

// quota reports how many whole units are left, and in how many seconds there is one more; 0 where there will be none.
//
// A bucket has no window that ends. The draft's "t" is the time until more quota is available, and with a leak that is the
// time until the next whole unit has leaked. Retry-After must not be earlier, so after a refusal it is at most that.
func quota(st brim.State) (left, more float64) {
	if blocked := blockedFor(st); blocked > 0 {
		return 0, wholeSeconds(blocked)
	}
	room := st.Remaining()
	left = math.Floor(room)
	if st.Level <= 0 || st.LeakRate == 0 {
		return left, 0
	}
	more = math.Ceil((left + 1 - room) / st.LeakRate)
	if st.RetryAfter > 0 && st.RetryAfter != brim.Never {
		more = min(more, wholeSeconds(st.RetryAfter))
	}
	return left, max(1, more)
}

func blockedFor(st brim.State) time.Duration {
	if st.BlockedUntil.IsZero() {
		return 0
	}
	return st.BlockedUntil.Sub(st.At)
}

// tooMany answers a request that does not fit now.
func (f *fields) tooMany(w http.ResponseWriter, wait time.Duration) {
	d := details{Title: "Too Many Requests", Status: http.StatusTooManyRequests, Detail: "The limit is reached, and waiting will not change that."}
	if wait != brim.Never {
		after := integer(max(1, wholeSeconds(wait)))
		w.Header().Set("Retry-After", after)
		d.Detail = "The limit is reached. Try again in " + after + " s."
	}
	if f.kind == DraftFields {
		d.Type, d.Title, d.Violated = quotaExceeded, "The quota is exceeded", []string{f.name}
	}
	problem(w, d)
}

// tooLarge answers a request that can never fit. There is no Retry-After: a client that waits and tries again would do so for
// ever.
func (f *fields) tooLarge(w http.ResponseWriter, n, capacity float64) {
	problem(w, details{
		Title: "Content Too Large", Status: http.StatusRequestEntityTooLarge,
		Detail: fmt.Sprintf("The request costs %v units and the limit is %v at a time.", n, capacity),
	})
}

// wholeSeconds rounds up, because whoever comes back earlier is refused again.
func wholeSeconds(d time.Duration) float64 { return math.Ceil(d.Seconds()) }

// integer writes a number as an integer of a structured field: 15 digits at most (RFC 9651).
func integer(f float64) string {
	return strconv.FormatInt(int64(min(math.Floor(f), 999_999_999_999_999)), 10)
}

// quote writes a string of a structured field (RFC 9651), which is printable ASCII.
func quote(what, s string) (string, error) {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return "", fmt.Errorf("httplimit: %s is %q; it must be printable ASCII", what, s)
		}
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`, nil
}
