package ui

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/brimgo/brim/internal/cached"
	"github.com/brimgo/brim/internal/humanize"
	"github.com/brimgo/brim/internal/plot"
	"github.com/brimgo/brim/store"
)

const (
	tryEvery    = 3 * time.Second        // while somebody looks, and more seldom if a try takes long
	tryTimeout  = time.Minute            // which a check that verifies a large file needs
	tryPatience = 250 * time.Millisecond // of a page for a try that runs
	slow        = 2 * time.Second        // the age from which on a call without an answer is a failure
	lately      = 15                     // seconds in which a failed call tells of the present
)

// try tries the store once.
func (h *Handler) try(ctx context.Context) (found []store.Finding, err error) {
	defer h.recovered("a try of the store", &err)
	h.trying.Store(h.clock().UnixNano())
	defer h.trying.Store(0)
	ctx, cancel := context.WithTimeout(ctx, tryTimeout)
	defer cancel()
	if h.check != nil {
		return h.check(ctx)
	}
	_, err = h.store.Read(ctx, store.Bucket{Key: "a try of the page"})
	return nil, err
}

// recovered turns a panic on a goroutine without net/http into an error. It is deferred.
func (h *Handler) recovered(what string, err *error) {
	if p := recover(); p != nil {
		h.logger.Error("ui: "+what+" panicked", "panic", p, "stack", string(debug.Stack()))
		*err = fmt.Errorf("ui: %s panicked: %v; the log has the stack", what, p)
	}
}

// health tells whether the limiter works.
type health struct {
	Class, Verdict string
	Facts          []string
	Findings       []store.Finding
}

// health returns the health of the limiter. It does not wait for the store.
func (h *Handler) health(ctx context.Context, o *overview) health {
	ctx, cancel := context.WithTimeout(ctx, tryPatience)
	defer cancel()
	last, _ := h.tries.Next(ctx) // without an answer, waited tells
	now, waited := h.clock(), time.Duration(0)
	if began := h.trying.Load(); began != 0 {
		waited = now.Sub(time.Unix(0, began))
	}
	return newHealth(last, now.Sub(last.At), waited, o)
}

// newHealth judges by the last try of the store, its age, the time for which the next one has
// waited for an answer, and the calls of the program.
func newHealth(last cached.Reading[[]store.Finding], age, waited time.Duration, o *overview) health {
	y := health{Class: "good", Verdict: "Healthy", Findings: last.Value}
	judge := func(class, verdict string) {
		if y.Class == "good" || y.Class != "bad" && class == "bad" {
			y.Class, y.Verdict = class, verdict
		}
	}
	fact := func(format string, args ...any) { y.Facts = append(y.Facts, fmt.Sprintf(format, args...)) }
	failing := sum(&o.failed, lately) > 0
	unanswered := "bad"
	if !failing && sum(&o.accepted, lately)+sum(&o.refused, lately) > 0 {
		unanswered = "warn" // the store decides, so only the try is slow
	}
	switch {
	case waited > slow+2*last.Took:
		judge(unanswered, "The store does not answer a try")
		fact("A try of the store has waited for %s.", humanize.Span(wholeSeconds(waited)))
	case last.At.IsZero():
		judge("warn", "Not tried yet")
		fact("The first try of the store has no answer yet.")
	case errors.Is(last.Err, context.DeadlineExceeded):
		judge(unanswered, "The store does not answer a try")
		fact("The last try, %s ago, did not end within %s.", ago(age), humanize.Span(tryTimeout))
	case last.Err != nil:
		judge("bad", "The store fails")
		fact("The last try, %s ago, failed: %v.", ago(age), last.Err)
	default:
		fact("The store answered the last try, %s ago, in %s.", ago(age), humanize.Span(max(last.Took, time.Millisecond)))
	}
	if failing {
		judge("bad", "Calls fail")
	}
	if failed := sum(&o.failed, slots); failed > 0 {
		judge("warn", "Calls failed")
		fact("%s failed in the last ten minutes, and %s a second in the last minute.", plural(int64(failed), "call", "calls"), plot.Number(float64(sum(&o.failed, minute))/minute))
	} else {
		fact("No call failed in the last ten minutes.")
	}
	if o.oldest > slow {
		judge("bad", "Calls get no answer")
	}
	if o.oldest == 0 {
		fact("No call waits for an answer.")
	} else {
		fact("The oldest call without an answer has waited for %s.", humanize.Span(wholeSeconds(o.oldest)))
	}
	for _, f := range last.Value {
		if f.Severity == store.Broken {
			judge("bad", "A promise is broken")
		}
	}
	return y
}

// ago writes an age in whole seconds.
func ago(age time.Duration) string { return humanize.Span(max(0, age).Truncate(time.Second)) }
