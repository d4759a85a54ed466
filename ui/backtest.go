package ui

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"strings"
	"time"

	"github.com/brimgo/brim/internal/duration"
	"github.com/brimgo/brim/internal/humanize"
	"github.com/brimgo/brim/internal/plot"
	"github.com/brimgo/brim/internal/spendreport"
	"github.com/brimgo/brim/internal/uiapi"
	"github.com/brimgo/brim/spend"
)

const (
	// backtestTimeout limits the time of a backtest.
	backtestTimeout = 20 * time.Second
	// backtestEntries limits the entries of an account that a backtest replays, and so its memory.
	backtestEntries = 200_000
	// maxRules is the most bytes of a post with rules.
	maxRules = 1 << 18
	// pageFlips is the number of flips that the page of a backtest shows.
	pageFlips = 50
	// maxFlips is the number of flips in an answer to a program.
	maxFlips = 10_000
)

// backtestPage asks for other rules, and shows what they would have decided.
type backtestPage struct {
	frame
	Budget, Account, Since, Rules string
	Result                        *backtestView // or nil
}

// backtestView is the outcome of a backtest.
type backtestView struct {
	Summary, Skipped, Incomplete, Unknowns string
	Picture                                template.HTML
	ByRule                                 []spendreport.RuleFlips
	Flips                                  []flipView
	More                                   int64
}

type flipView struct{ At, ID, Amount, Outcome string }

// askBacktest shows the form for a backtest, with the rules that are in force.
func (h *Handler) askBacktest(w http.ResponseWriter, v *visit) {
	query := v.URL.Query()
	b, f := h.budget(query.Get("budget"))
	if f == nil && v.access != Act {
		f = onlyLook
	}
	page := backtestPage{frame: h.frame("Backtest", "spends"), Account: query.Get("account"), Since: "30d"}
	if f == nil {
		page.Budget = b.Name()
		page.Rules, f = rulesInForce(v.Context(), b)
	}
	if f != nil {
		h.failed(w, v, f)
		return
	}
	h.render(w, http.StatusOK, "backtest", page)
}

// rulesInForce returns the rules of a budget as JSON for people.
func rulesInForce(ctx context.Context, b *spend.Budgets) (string, *failure) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for r, err := range b.Rules(ctx) {
		var text []byte
		if err == nil {
			text, err = json.Marshal(r.Rules)
		}
		if err != nil {
			return "", failureOf(err)
		}
		var out bytes.Buffer
		if err := json.Indent(&out, text, "", "  "); err != nil {
			return "", failureOf(err)
		}
		return out.String(), nil
	}
	return "", nil
}

// runBacktest runs the backtest that the form asks for, and shows its outcome.
func (h *Handler) runBacktest(w http.ResponseWriter, v *visit) {
	v.Body = http.MaxBytesReader(w, v.Body, maxRules)
	if err := v.ParseForm(); err != nil {
		h.failed(w, v, &failure{status: http.StatusBadRequest, title: "Not a form", detail: "The post cannot be read as a form."})
		return
	}
	get := func(name string) string { return strings.TrimSpace(v.PostForm.Get(name)) }
	page := backtestPage{frame: h.frame("Backtest", "spends"), Budget: get("budget"), Account: v.PostForm.Get("account"), Since: get("since"), Rules: get("rules")}
	asked := uiapi.Backtest{Budget: page.Budget, Account: page.Account, Rules: json.RawMessage(page.Rules)}
	var since duration.Value
	if since.Set(page.Since) == nil {
		asked.Since = since.Std().Seconds() // an unreadable time stays 0
	}
	run, f := h.backtest(v, &asked, pageFlips)
	status := http.StatusOK
	if f != nil {
		page.Problem, status = f, f.status
	} else {
		page.Result = newBacktestView(run)
	}
	h.render(w, status, "backtest", page)
}

// ran is a backtest that has ended.
type ran struct {
	*spendreport.Summary
	course *plot.Timeline
	flips  []spendreport.Flip // the first
	took   time.Duration
}

// backtest runs a backtest, and keeps up to most of its flips. The form and the address for
// programs obey its rules. One backtest runs at a time, because each needs a processor and a
// connection for some seconds.
func (h *Handler) backtest(v *visit, asked *uiapi.Backtest, most int) (*ran, *failure) {
	b, f := h.budget(asked.Budget)
	if f != nil {
		return nil, f
	}
	if err := asked.Validate(); err != nil {
		return nil, failureOf(fmt.Errorf("%w: %w", spend.ErrRequest, err))
	}
	var rules spend.Budget
	if err := rules.UnmarshalJSON(asked.Rules); err != nil {
		return nil, failureOf(err)
	}
	select {
	case h.backtesting <- struct{}{}:
		defer func() { <-h.backtesting }()
	default:
		return nil, &failure{
			status: http.StatusServiceUnavailable, title: "Another backtest runs",
			detail: "This page runs one backtest at a time. Try again in some seconds.",
		}
	}
	ctx, cancel := context.WithTimeout(v.Context(), backtestTimeout)
	defer cancel()
	began := time.Now()
	run := &ran{course: plot.Daily()}
	t := &spendreport.Backtest{Course: run.course, Top: 1, Flip: func(x spendreport.Flip) error {
		if len(run.flips) < most {
			run.flips = append(run.flips, x)
		}
		return nil
	}}
	var err error
	run.Summary, err = t.Run(ctx, b, spend.BacktestOptions{
		Rules: rules, Account: asked.Account, MaxEntries: backtestEntries,
		Since: h.clock().Add(-time.Duration(asked.Since * float64(time.Second))),
	})
	run.took = time.Since(began)
	h.logger.InfoContext(v.Context(), "ui: a backtest ran", "who", v.who, "budget", asked.Budget, "took", run.took, "error", err)
	if err != nil {
		return nil, failureOf(err)
	}
	return run, nil
}

func newBacktestView(r *ran) *backtestView {
	y := &backtestView{
		Summary: fmt.Sprintf("Of %s since %s, %d would be declined, %d approved, and %d approved for less. It took %s.",
			plural(r.Decisions, "decision", "decisions"), fullTime(r.Since), r.Decline, r.Approve, r.Reduce, humanize.Span(r.took.Round(time.Millisecond))),
		Unknowns: spendreport.Unknowns, ByRule: r.Rules, More: r.Total() - int64(len(r.flips)),
	}
	if !r.Complete {
		y.Incomplete = fmt.Sprintf("These are the decisions of the part that was replayed within %s.", humanize.Span(backtestTimeout))
	}
	for _, s := range r.TopSkipped {
		y.Skipped = "The account was not replayed: " + s.Why + "."
	}
	if r.Decisions > 0 {
		y.Picture = template.HTML(r.course.FlipPicture("Decisions that flip, by day", 560))
	}
	for i := range r.flips {
		x := &r.flips[i]
		row := flipView{At: fullTime(x.Entry.At), ID: x.Entry.RequestID, Amount: x.Entry.Amount.String()}
		by := humanize.Line(strings.Join(x.By(), ", "))
		switch {
		case !x.Approved:
			row.Outcome = "would be declined by " + by
		case x.Entry.Kind == "decline":
			row.Outcome = fmt.Sprintf("would be approved for %v; was declined by %s", x.Amount, by)
		default:
			row.Outcome = fmt.Sprintf("would be approved for %v", x.Amount)
		}
		y.Flips = append(y.Flips, row)
	}
	return y
}

// apiExplain explains a decision.
func (h *Handler) apiExplain(w http.ResponseWriter, v *visit) {
	x, f := h.explained(v)
	if f != nil {
		problem(w, f)
		return
	}
	answer(w, spendreport.NewExplanation(x))
}

// apiBacktest runs a backtest, by the rules of the form.
func (h *Handler) apiBacktest(w http.ResponseWriter, v *visit) {
	var asked uiapi.Backtest
	if err := json.NewDecoder(http.MaxBytesReader(w, v.Body, maxRules)).Decode(&asked); err != nil {
		problem(w, &failure{status: http.StatusBadRequest, title: "Not a backtest", detail: "the post cannot be read as a backtest"})
		return
	}
	run, f := h.backtest(v, &asked, maxFlips)
	if f != nil {
		problem(w, f)
		return
	}
	w.Header().Set("Content-Type", "application/jsonl")
	lines := json.NewEncoder(w)
	var err error
	for i := range run.flips {
		err = errors.Join(err, lines.Encode(run.flips[i]))
	}
	_ = errors.Join(err, lines.Encode(run.Summary)) // nobody is left to hear of an error
}
