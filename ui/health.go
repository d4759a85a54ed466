package ui

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/brimgo/brim/internal/cached"
	"github.com/brimgo/brim/internal/humanize"
	"github.com/brimgo/brim/internal/plot"
	"github.com/brimgo/brim/store"
)

const (
	tryEvery    = 1500 * time.Millisecond // while somebody looks: with each update of a page
	quickCheck  = tryEvery / 5            // the time of a check that runs with each try
	tryAgain    = time.Second             // after a try that failed
	tryTimeout  = time.Minute             // which a check that verifies a large file needs
	tryLeast    = 3 * time.Second         // the bound of a try, if earlier ones took less than a quarter of it
	tryPatience = 250 * time.Millisecond  // of a page for a try that runs
	slowTry     = time.Second             // the age from which on a try without an answer is a failure
	slow        = 2 * time.Second         // and a call
	lately      = 15 * time.Second        // in which a failed call tells of the present, if no try has succeeded since
	present     = 2 * time.Second         // in which it does in any case
	old         = 5 * tryEvery            // the age from which on a try tells nothing of the present
)

// tried is the outcome of a try.
type tried struct {
	findings []store.Finding
	at       time.Time     // of the last check that has succeeded
	took     time.Duration // by it
	ledger   bool          // the store has answered, and the ledger has failed
}

// restOfTry returns the time between the beginnings of two tries.
func restOfTry(r cached.Reading[tried]) time.Duration {
	if r.Err != nil {
		return tryAgain
	}
	return tryEvery
}

// try tries the store and the ledger once. It is not called twice at the same time.
func (h *Handler) try(ctx context.Context) (out tried, err error) {
	defer h.recovered("a try of the store", &err)
	began := h.clock()
	h.trying.Store(began.UnixNano())
	defer h.trying.Store(0)
	out = h.tried
	bound := tryTimeout
	if !out.at.IsZero() {
		bound = max(tryLeast, 4*out.took)
	}
	ctx, cancel := context.WithTimeout(asOwn(ctx), bound)
	defer cancel()
	rest := (cached.Pause + 1) * out.took
	switch {
	case out.took <= quickCheck:
		rest = 0
	case slices.ContainsFunc(out.findings, broken): // their end is told soon
		rest = 5 * out.took
	}
	due := began.Sub(out.at) >= rest
	if doubt := h.doubt.Swap(false); h.check != nil && (doubt || due) {
		out = tried{at: began}
		out.findings, err = h.check(ctx)
		if out.took = max(0, h.clock().Sub(began)); h.tried.took > 0 {
			out.took = min(out.took, 2*h.tried.took) // it may have waited for the end of an outage
		}
	} else {
		_, err = h.store.Read(ctx, store.Bucket{Key: "a try of the page"})
	}
	ledger := false
	for _, b := range h.budgets {
		if err == nil {
			_, err = b.Remaining(ctx, "a try of the page")
			ledger = err != nil
		}
	}
	if err != nil {
		h.doubt.Store(true)
		return tried{took: h.tried.took, ledger: ledger}, err
	}
	slices.SortStableFunc(out.findings, moreSevere)
	h.tried = out
	return out, nil
}

// broken reports whether a finding says that a promise is broken.
func broken(f store.Finding) bool { return f.Severity == store.Broken }

// moreSevere orders findings, the worst first.
func moreSevere(x, y store.Finding) int { return int(y.Severity) - int(x.Severity) }

// JoinChecks returns a function for [Options.Check] that calls the given ones in their order. A
// finding of several of them is returned once, and the worst come first. The first error ends it.
func JoinChecks(checks ...func(context.Context) ([]store.Finding, error)) func(context.Context) ([]store.Finding, error) {
	return func(ctx context.Context) (all []store.Finding, err error) {
		for _, check := range checks {
			findings, err := check(ctx)
			if err != nil {
				return nil, err
			}
			for _, f := range findings {
				if !slices.Contains(all, f) {
					all = append(all, f)
				}
			}
		}
		slices.SortStableFunc(all, moreSevere)
		return all, nil
	}
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

// health returns the health of the limiter. It does not wait for the store. A failure, and calls
// that contradict the last try, cause a new one.
func (h *Handler) health(ctx context.Context, o *overview) health {
	ctx, cancel := context.WithTimeout(ctx, tryPatience)
	defer cancel()
	last, _ := h.tries.Latest(ctx) // without an answer, waited tells
	if contradicted(&last, h.clock().Sub(last.At), o) {
		h.doubt.Store(true)
		h.tries.Doubt()
	}
	last, _ = h.tries.Next(ctx)
	now, waited := h.clock(), time.Duration(0)
	if began := h.trying.Load(); began != 0 {
		waited = now.Sub(time.Unix(0, began))
	}
	return newHealth(last, now.Sub(last.At), waited, o)
}

// contradicted reports whether calls since a try of that age have ended otherwise than it.
func contradicted(last *cached.Reading[tried], age time.Duration, o *overview) bool {
	if last.Err != nil {
		return o.answered < age-last.Took || o.spends.answered < age-last.Took
	}
	since := func(f failedNow) bool { return f.text != "" && f.ago <= age }
	return since(o.failure) || since(o.spends.failure)
}

// newHealth judges by the last try of the store, its age, the time for which the next one has
// waited for an answer, and the calls of the program.
func newHealth(last cached.Reading[tried], age, waited time.Duration, o *overview) health {
	y := health{Class: "good", Verdict: "Healthy", Findings: last.Value.findings}
	usual := max(last.Took, last.Value.took)
	failing := func(f failedNow) bool {
		return f.text != "" && (f.ago < present || f.ago < lately && (last.Err != nil || f.ago <= age))
	}
	unanswered := "bad"
	if !failing(o.failure) && o.answered < max(waited, present) {
		unanswered = "warn" // the store decides, so only the try is slow
	}
	switch {
	case waited > slowTry+2*usual:
		y.judge(unanswered, "The store does not answer a try")
		y.fact("A try of the store has waited for %s.", humanize.Span(wholeSeconds(waited)))
	case last.At.IsZero():
		y.judge("warn", "Not tried yet")
		y.fact("The first try of the store has no answer yet.")
	case age > old+2*usual:
		y.judge("warn", "Not tried for "+ago(age))
		y.fact("The verdict of then tells nothing of now.")
	case errors.Is(last.Err, context.DeadlineExceeded):
		y.judge(unanswered, "The store does not answer a try")
		y.fact("The last try, %s ago, did not end within %s.", ago(age), humanize.Span(last.Took.Round(time.Second)))
	case last.Err != nil:
		if y.judge("bad", "The store fails"); last.Value.ledger {
			y.Verdict = "The ledger fails"
		}
		y.fact("The last try, %s ago, failed: %v.", ago(age), last.Err)
	default:
		y.fact("The store answered the last try, %s ago, in %s.", ago(age), humanize.Span(max(last.Took, time.Millisecond)))
	}
	if failing(o.failure) {
		y.judge("bad", "Calls fail")
	}
	if failing(o.spends.failure) {
		y.judge("bad", "Spends fail")
	}
	tries := len(y.Facts)
	if y.calls(o); y.Verdict == "Calls fail" || y.Verdict == "Spends fail" { // the cause stands first
		y.Facts = slices.Concat(y.Facts[tries:], y.Facts[:tries])
	}
	if slices.ContainsFunc(y.Findings, broken) {
		y.judge("bad", "A promise is broken")
	}
	return y
}

// judge makes the verdict worse.
func (y *health) judge(class, verdict string) {
	if y.Class == "good" || y.Class != "bad" && class == "bad" {
		y.Class, y.Verdict = class, verdict
	}
}

func (y *health) fact(format string, args ...any) {
	y.Facts = append(y.Facts, fmt.Sprintf(format, args...))
}

// calls tells of the calls of the program.
func (y *health) calls(o *overview) {
	if o.unseen {
		y.fact("The calls of programs do not pass through this page, so it does not see whether they fail.")
		return
	}
	failed, spends := sum(&o.failed, slots), sum(&o.spends.failed, slots)
	if failed > 0 {
		y.judge("warn", "Calls failed")
		y.fact("%s failed in the last ten minutes, and %s a second in the last minute.", plural(int64(failed), "call", "calls"), plot.Number(float64(sum(&o.failed, minute))/minute))
		y.failure("call", o.failure)
	}
	if spends > 0 {
		y.judge("warn", "Spends failed")
		y.fact("%s failed in the last ten minutes.", plural(int64(spends), "spend", "spends"))
		y.failure("spend", o.spends.failure)
	}
	if failed+spends == 0 {
		y.fact("No call failed in the last ten minutes.")
	}
	if o.oldest > slow {
		y.judge("bad", "Calls get no answer")
	}
	if o.oldest == 0 {
		y.fact("No call waits for an answer.")
	} else {
		y.fact("The oldest call without an answer has waited for %s.", humanize.Span(wholeSeconds(o.oldest)))
	}
}

// failure tells the text of the last failed call.
func (y *health) failure(of string, f failedNow) {
	if f.text != "" {
		y.fact("The last failed %s, %s ago: %s.", of, ago(f.ago), humanize.Line(f.text))
	}
}

// ago writes an age in whole seconds.
func ago(age time.Duration) string { return humanize.Span(max(0, age).Truncate(time.Second)) }
