package llmlimit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/store"
)

// longest is the longest wait that a client may sleep for by itself. The SDK of Anthropic sleeps as
// long as it is told.
const longest = time.Minute

// refusal is an answer of the Transport's own.
type refusal struct {
	status int
	text   string
	after  time.Duration // when the request may be sent again; 0: never
	code   any           // of OpenAI: nil or a text
}

// declined is the refusal of a call that some budgets have declined.
func declined(d *spend.Decision, cost spend.Money) *refusal {
	where := "the budget has no room"
	if len(d.Declines) > 0 { // the account may be personal data
		x := d.Declines[0]
		where = fmt.Sprintf("the budget %q has no room in its rule %q", x.Budget, x.Rule)
		if x.Frozen != "" {
			where = fmt.Sprintf("the account is frozen in the budget %q", x.Budget)
		}
	}
	f := &refusal{
		status: http.StatusTooManyRequests, text: fmt.Sprintf("%s for this call, which may cost %v", where, cost),
		after: max(d.RetryAfter, time.Millisecond), code: "budget_exceeded",
	}
	if d.RetryAfter == store.Never {
		f.status, f.after = http.StatusBadRequest, 0
	}
	return f
}

// names are the types of errors, as a dialect names them.
func (d dialect) names(status int) (name string) {
	type names struct{ openai, anthropic, gemini string }
	of := map[int]names{
		http.StatusBadRequest:            {"invalid_request_error", "invalid_request_error", "FAILED_PRECONDITION"},
		http.StatusForbidden:             {"permission_error", "permission_error", "PERMISSION_DENIED"},
		http.StatusRequestEntityTooLarge: {"invalid_request_error", "request_too_large", "INVALID_ARGUMENT"},
		http.StatusTooManyRequests:       {"rate_limit_exceeded", "rate_limit_error", "RESOURCE_EXHAUSTED"},
		http.StatusInternalServerError:   {"server_error", "api_error", "INTERNAL"},
		http.StatusServiceUnavailable:    {"server_error", "overloaded_error", "UNAVAILABLE"},
	}[status]
	switch d {
	case messages:
		return of.anthropic
	case gemini:
		return of.gemini
	}
	return of.openai
}

// answer returns the refusal as the provider of the dialect would write it. A refusal is an answer
// and no error, because SDKs send a request again after an error.
func (f *refusal) answer(r *http.Request, d dialect) *http.Response {
	name := d.names(f.status)
	var body any
	switch d {
	case messages:
		body = map[string]any{"type": "error", "error": map[string]any{"type": name, "message": f.text}}
	case gemini:
		body = map[string]any{"error": map[string]any{"code": f.status, "message": f.text, "status": name}}
	default:
		body = map[string]any{"error": map[string]any{"message": f.text, "type": name, "param": nil, "code": f.code}}
	}
	text, _ := json.Marshal(body) // of texts and numbers
	h := http.Header{"Content-Type": {"application/json"}}
	if f.after > 0 {
		h.Set("Retry-After", strconv.FormatInt(roundUp(f.after, time.Second), 10))
		h.Set("Retry-After-Ms", strconv.FormatInt(roundUp(f.after, time.Millisecond), 10))
	}
	if f.after == 0 || f.after > longest {
		h.Set("X-Should-Retry", "false")
	}
	return &http.Response{
		Status: fmt.Sprintf("%d %s", f.status, http.StatusText(f.status)), StatusCode: f.status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: h, Body: io.NopCloser(bytes.NewReader(text)), ContentLength: int64(len(text)), Request: r,
	}
}

// roundUp returns d in units, rounded up.
func roundUp(d, unit time.Duration) int64 {
	n := int64(d / unit)
	if d%unit > 0 {
		n++
	}
	return n
}
