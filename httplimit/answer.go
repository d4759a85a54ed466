package httplimit

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"net"
	"net/http"
	"strconv"
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

// set writes the fields of the policies, in their order. It stores the canonical names itself,
// because http.Header.Set would compute them for each answer.
//
// The fields of a handler in front of this one stay: a list continues in another line of the field,
// and X-RateLimit has no lists.
func (f Fields) set(h http.Header, parts []part) {
	if len(parts) == 0 {
		return
	}
	switch f {
	case DraftFields:
		var policy, rate []byte
		for i := range parts {
			policy, rate = parts[i].draft(policy, rate)
		}
		h["Ratelimit-Policy"] = append(h["Ratelimit-Policy"], string(policy))
		h["Ratelimit"] = append(h["Ratelimit"], string(rate))
	case XRateLimitFields, XRateLimitDates:
		if _, outer := h["X-Ratelimit-Limit"]; !outer {
			xRateLimit(h, parts[0].state, f == XRateLimitDates)
		}
	}
}

// draft appends a policy to the lists of the fields RateLimit-Policy and RateLimit.
func (p *part) draft(policy, rate []byte) (policies, rates []byte) {
	if len(policy) > 0 {
		policy, rate = append(policy, ", "...), append(rate, ", "...)
	}
	policy, rate = appendQuoted(policy, p.Name), appendQuoted(rate, p.Name)
	policy = appendInteger(append(policy, ";q="...), p.Limit.Capacity)
	if p.Unit != "" {
		policy = appendQuoted(append(policy, ";qu="...), p.Unit)
	}
	if w := p.window(); w > 0 {
		policy = appendInteger(append(policy, ";w="...), w)
	}
	left, more := quota(p.state)
	rate = appendInteger(append(rate, ";r="...), left)
	if more > 0 {
		rate = appendInteger(append(rate, ";t="...), more)
	}
	return policy, rate
}

// window returns the seconds in which a full bucket drains, or those of the period of a quota of
// the calendar, or 0 if the bucket does not leak.
func (p *part) window() float64 {
	switch {
	case p.Limit.Calendar():
		at := p.state.At
		if at.IsZero() { // the store was not asked
			at = time.Now()
		}
		begins, ends := p.Limit.PeriodAt(at)
		return wholeSeconds(ends.Sub(begins))
	case p.Limit.LeakRate > 0:
		return max(1, ceilSeconds(p.Limit.Capacity/p.Limit.LeakRate))
	}
	return 0
}

// xRateLimit writes the fields for a bucket in state st.
func xRateLimit(h http.Header, st brim.State, dates bool) {
	left, _ := quota(st)
	h["X-Ratelimit-Limit"] = []string{integer(st.Capacity)}
	h["X-Ratelimit-Remaining"] = []string{integer(left)}
	if blocked := blockedFor(st); max(st.TimeToEmpty(), blocked) < brim.Never {
		reset := wholeSeconds(blocked)
		switch {
		case st.Level <= 0:
		case !st.Empties.IsZero():
			reset = max(reset, wholeSeconds(st.TimeToEmpty()))
		default:
			reset = max(reset, ceilSeconds(st.Level/st.LeakRate))
		}
		if dates {
			reset += math.Ceil(float64(st.At.UnixMicro()) / 1e6)
		}
		h["X-Ratelimit-Reset"] = []string{integer(reset)}
	}
}

// quota returns the whole units that fit now, and the seconds until one more unit fits, or 0 if
// no further unit will fit.
//
// The draft's parameter "t" is the time until more quota is available. A bucket has no window that
// ends, so t is the time until the next whole unit has leaked, or until the period of a quota of
// the calendar ends. By the draft, Retry-After should not be below t, so after a refusal t is at
// most Retry-After.
func quota(st brim.State) (left, more float64) {
	if blocked := blockedFor(st); blocked > 0 {
		return 0, wholeSeconds(blocked)
	}
	units := st.Remaining()
	left = math.Floor(units)
	switch {
	case st.Level <= 0:
		return left, 0
	case !st.Empties.IsZero():
		more = wholeSeconds(st.TimeToEmpty())
	case st.LeakRate == 0:
		return left, 0
	default:
		more = ceilSeconds((left + 1 - units) / st.LeakRate)
	}
	if st.RetryAfter > 0 && st.RetryAfter < brim.Never {
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
func Refuse(w http.ResponseWriter, st brim.State, n float64) {
	refusal := Refusal{Cost: n, State: st}
	refusal.announce(w.Header())
	refusal.write(w, NoFields)
}

// announce sets the status, and Retry-After where a wait helps. A smaller request would not help a
// client that nothing is admitted from, so a capacity of 0 is no matter of size. The Retry-After is
// at least a second: 0 would invite the client to try again at once. A client that obeyed one after
// a 413 would try again for ever.
func (r *Refusal) announce(h http.Header) {
	r.Status = http.StatusTooManyRequests
	if r.Cost > r.State.Capacity && r.State.Capacity > 0 {
		r.Status = http.StatusRequestEntityTooLarge
	} else if r.State.RetryAfter < brim.Never {
		h.Set("Retry-After", integer(max(1, wholeSeconds(r.State.RetryAfter))))
	}
}

// by lets refuse answer. If it sends no status, that of the refusal is sent, since net/http would
// send 200.
func (r *Refusal) by(refuse func(http.ResponseWriter, *http.Request, Refusal), w http.ResponseWriter, request *http.Request) {
	a := &answer{ResponseWriter: w, usual: r.Status}
	refuse(a, request, *r)
	a.begin()
}

// write answers with a problem document.
func (r *Refusal) write(w http.ResponseWriter, f Fields) {
	p := problem{Status: r.Status, Title: "Too Many Requests"}
	after := w.Header().Get("Retry-After")
	switch {
	case r.Status == http.StatusRequestEntityTooLarge:
		p.Title = "Content Too Large"
		p.Detail = fmt.Sprintf("The request costs %s units and the limit is %s at a time.", inFull(r.Cost), inFull(r.State.Capacity))
		writeProblem(w, p)
		return
	case after == "":
		p.Detail = "The limit is reached, and waiting will not change that."
	default:
		p.Detail = "The limit is reached. Try again in " + after + " s."
	}
	if f == DraftFields {
		p.Type, p.Title, p.Violated = quotaExceeded, "The quota is exceeded", r.Violated
	}
	writeProblem(w, p)
}

// answer is the answer of a handler. It notes the status.
type answer struct {
	http.ResponseWriter
	status int
	usual  int  // the status if the handler sends none; 0 means 200, which net/http sends by itself
	ended  bool // the handler has returned
}

// WriteHeader sends the status. Several informational ones may precede it (RFC 9110, section 15.2).
func (a *answer) WriteHeader(status int) {
	if a.status == 0 && (status >= http.StatusOK || status == http.StatusSwitchingProtocols) {
		a.status = status
	}
	a.ResponseWriter.WriteHeader(status)
}

func (a *answer) Write(b []byte) (int, error) {
	a.begin()
	return a.ResponseWriter.Write(b)
}

// begin sends the usual status, unless a status was sent.
func (a *answer) begin() {
	switch {
	case a.status != 0:
	case a.usual != 0:
		a.WriteHeader(a.usual)
	default:
		a.status = http.StatusOK
	}
}

// Unwrap is for [http.ResponseController]. Flush and Hijack are for handlers that look for the
// interfaces themselves.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

func (a *answer) Flush() {
	a.begin()
	_ = http.NewResponseController(a.ResponseWriter).Flush() // http.Flusher reports no error
}

func (a *answer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffer, err := http.NewResponseController(a.ResponseWriter).Hijack()
	if err == nil {
		a.status = cmp.Or(a.status, http.StatusSwitchingProtocols)
	}
	return conn, buffer, err
}

// final returns the status of the answer, after the handler.
func (a *answer) final() int {
	switch {
	case a.status != 0:
		return a.status
	case a.ended:
		return http.StatusOK
	}
	return http.StatusInternalServerError // it has panicked
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

// integer writes f as an integer of a structured field.
func integer(f float64) string { return string(appendInteger(nil, f)) }

// appendInteger appends f as an integer of a structured field, which has at most 15 digits (RFC
// 9651, section 3.3.1).
func appendInteger(to []byte, f float64) []byte {
	return strconv.AppendInt(to, int64(min(math.Floor(f), 999_999_999_999_999)), 10)
}

// appendQuoted appends s as a string of a structured field (RFC 9651, section 3.3.3). The string is
// printable.
func appendQuoted(to []byte, s string) []byte {
	to = append(to, '"')
	for i := range len(s) {
		if s[i] == '"' || s[i] == '\\' {
			to = append(to, '\\')
		}
		to = append(to, s[i])
	}
	return append(to, '"')
}

// printable reports whether s is printable ASCII, which a string of a structured field must be.
func printable(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}
