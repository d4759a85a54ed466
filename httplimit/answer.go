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

// problem is the body of an answer, as RFC 9457 defines it.
type problem struct {
	Type     string   `json:"type,omitempty"` // absent means about:blank: only the status describes the problem
	Title    string   `json:"title"`
	Status   int      `json:"status"`
	Detail   string   `json:"detail,omitempty"`
	Violated []string `json:"violated-policies,omitempty"`
}

// quotaExceeded is the problem type that the RateLimit fields draft registers.
const quotaExceeded = "https://iana.org/assignments/http-problem-types#quota-exceeded"

func writeProblem(w http.ResponseWriter, p problem) {
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("Cache-Control", "no-store") // the answer concerns this request alone
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p) // the status has been sent, so an error cannot be reported
}

// fields writes the header fields of a limit.
type fields struct {
	kind   Fields
	name   string // of the policy
	quoted string // the name as a string of a structured field
	policy string // the value that is the same in each answer
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
			f.policy += ";w=" + integer(max(1, ceilSeconds(l.Capacity/l.LeakRate)))
		}
	case XRateLimitFields:
		f.policy = integer(l.Capacity)
	}
	return f, nil
}

// set writes the fields for a bucket in state st. It stores the canonical names itself, because
// http.Header.Set would compute them for each answer.
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
		if blocked := blockedFor(st); max(st.TimeToEmpty(), blocked) != brim.Never {
			reset := wholeSeconds(blocked)
			if st.Level > 0 {
				reset = max(reset, ceilSeconds(st.Level/st.LeakRate))
			}
			h["X-Ratelimit-Reset"] = []string{integer(reset)}
		}
	}
}

// quota returns the whole units that fit now, and the seconds until one more unit fits, or 0 if
// no further unit will fit.
//
// The draft's parameter "t" is the time until more quota is available. A bucket has no window
// that ends, so t is the time until the next whole unit has leaked. By the draft, Retry-After
// should not be below t, so after a refusal t is at most Retry-After.
func quota(st brim.State) (left, more float64) {
	if blocked := blockedFor(st); blocked > 0 {
		return 0, wholeSeconds(blocked)
	}
	room := st.Remaining()
	left = math.Floor(room)
	if st.Level <= 0 || st.LeakRate == 0 {
		return left, 0
	}
	more = ceilSeconds((left + 1 - room) / st.LeakRate)
	if st.RetryAfter > 0 && st.RetryAfter != brim.Never {
		more = min(more, wholeSeconds(st.RetryAfter))
	}
	return left, max(1, more)
}

// blockedFor returns the time until the bucket's block ends, by the store's clock.
func blockedFor(st brim.State) time.Duration {
	if st.BlockedUntil.IsZero() {
		return 0
	}
	return st.BlockedUntil.Sub(st.At)
}

// Refuse answers a request whose n units a Limiter refused with st, as the handlers of [New] do
// with [NoFields]: with status 413 if n exceeds the capacity, and with status 429 otherwise. A 429
// has a Retry-After, unless no wait helps. Refuse is for handlers that ask the Limiter themselves.
// st may be the State of a [brim.OverLimitError], too.
//
// Retry-After is st.RetryAfter in whole seconds, rounded up. To keep clients that were refused
// together from coming back together, add a random time to st.RetryAfter before the call.
func Refuse(w http.ResponseWriter, st brim.State, n float64) { (&fields{}).refuse(w, st, n) }

// refuse answers a request whose n units were refused with st.
func (f *fields) refuse(w http.ResponseWriter, st brim.State, n float64) {
	if n > st.Capacity {
		tooLarge(w, n, st.Capacity)
		return
	}
	f.tooMany(w, st.RetryAfter)
}

// tooMany answers a request that does not fit now. The Retry-After is at least a second: 0 would
// invite the client to try again at once.
func (f *fields) tooMany(w http.ResponseWriter, wait time.Duration) {
	p := problem{
		Title: "Too Many Requests", Status: http.StatusTooManyRequests,
		Detail: "The limit is reached, and waiting will not change that.",
	}
	if wait != brim.Never {
		after := integer(max(1, wholeSeconds(wait)))
		w.Header().Set("Retry-After", after)
		p.Detail = "The limit is reached. Try again in " + after + " s."
	}
	if f.kind == DraftFields {
		p.Type, p.Title, p.Violated = quotaExceeded, "The quota is exceeded", []string{f.name}
	}
	writeProblem(w, p)
}

// tooLarge answers a request that can never fit. It sends no Retry-After, because a client that
// obeys it would try again for ever.
func tooLarge(w http.ResponseWriter, n, capacity float64) {
	writeProblem(w, problem{
		Title: "Content Too Large", Status: http.StatusRequestEntityTooLarge,
		Detail: fmt.Sprintf("The request costs %s units and the limit is %s at a time.", inFull(n), inFull(capacity)),
	})
}

// inFull writes f without an exponent, since a Content-Length has many digits.
func inFull(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

// wholeSeconds rounds up: a client that comes back earlier is refused again.
func wholeSeconds(d time.Duration) float64 { return math.Ceil(d.Seconds()) }

// ceilSeconds rounds s seconds up, if s is more than rounding errors above a whole number: 10 units
// that leak at 10/60 units per second take 60.00000000000001 seconds in doubles. A quotient of two
// doubles is at most a few 2^-53 of itself off, and nothing in brim is finer than a microsecond.
func ceilSeconds(s float64) float64 {
	if whole := math.Round(s); math.Abs(s-whole) <= max(0.5e-6, whole*0x1p-50) {
		return whole
	}
	return math.Ceil(s)
}

// integer writes f as an integer of a structured field, which has at most 15 digits (RFC 9651,
// section 3.3.1).
func integer(f float64) string {
	return strconv.FormatInt(int64(min(math.Floor(f), 999_999_999_999_999)), 10)
}

// quote writes s as a string of a structured field, which is printable ASCII (RFC 9651, section
// 3.3.3). The error names the option.
func quote(option, s string) (string, error) {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return "", fmt.Errorf("httplimit: %s is %q; it must be printable ASCII", option, s)
		}
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`, nil
}
