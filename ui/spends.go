package ui

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/brimgo/brim/internal/humanize"
	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/store"
)

const (
	// pageEntries is the number of entries of an account among which a page finds the declines.
	pageEntries = 100
	// pageCounted is the number of spends that the page of an explanation shows for a rule.
	pageCounted = 50
	// explainTimeout limits the time for which the ledger is read for an explanation.
	explainTimeout = 10 * time.Second
	// explainers is the number of explanations that are made at the same time.
	explainers = 2
)

// budget returns the budget of that name.
func (h *Handler) budget(name string) (*spend.Budgets, *failure) {
	if i := slices.IndexFunc(h.budgets, func(b *spend.Budgets) bool { return b.Name() == name }); i >= 0 {
		return h.budgets[i], nil
	}
	return nil, &failure{
		status: http.StatusNotFound, title: "No such budget", err: spend.ErrRequest,
		detail: "This page shows no budget of that name: the program gives its budgets to ui.Options.Spends.",
	}
}

// spendsPage is the page with the questions about spends.
type spendsPage struct {
	frame
	Budgets []string
	Budget  string // chosen
	Act     bool
}

func (h *Handler) budgetNames() (names []string) {
	for _, b := range h.budgets {
		names = append(names, b.Name())
	}
	return names
}

// spends asks for an account or the ID of a request.
func (h *Handler) spends(w http.ResponseWriter, v *visit) {
	h.render(w, http.StatusOK, "spends", spendsPage{
		frame: h.frame("Spends", "spends"), Budgets: h.budgetNames(), Act: v.access == Act,
	})
}

// accountPage is the page of one account.
type accountPage struct {
	spendsPage
	Account, Plan, Age string
	Rules              []usageView
	Declines, Shadow   []refusal
	Range              string // the entries among which these were found
	Older              string // the address of the entries before them
}

// refusals is a list of refusals of a budget, as a template wants it.
type refusals struct {
	Budget   string
	Refusals []refusal
}

// Refused, Shadowed and TryRules serve the template.
func (p *accountPage) Refused() *refusals  { return p.list(p.Declines) }
func (p *accountPage) Shadowed() *refusals { return p.list(p.Shadow) }
func (p *accountPage) TryRules() string {
	return link("backtest", "budget", p.Budget, "account", p.Account)
}

func (p *accountPage) list(rows []refusal) *refusals {
	if len(rows) == 0 {
		return nil
	}
	return &refusals{p.Budget, rows}
}

// usageView are the figures of a rule.
type usageView struct{ Rule, Limit, Used, Held, Remaining, Grows string }

// refusal is an entry that rules have declined, or would have in the shadow.
type refusal struct{ At, ID, Amount, By string }

// account shows the figures of an account, and which rules have refused its requests.
func (h *Handler) account(w http.ResponseWriter, v *visit) {
	query := v.URL.Query()
	b, f := h.budget(query.Get("budget"))
	if f != nil {
		h.failed(w, v, f)
		return
	}
	ctx, cancel := context.WithTimeout(v.Context(), patience)
	defer cancel()
	page := accountPage{Account: query.Get("account")}
	page.frame = h.frame(humanize.Key(page.Account), "spends")
	page.Budget, page.Act = b.Name(), v.access == Act
	usages, err := b.Remaining(ctx, page.Account)
	if err == nil {
		page.Plan, err = b.Plan(ctx, page.Account)
	}
	if err == nil {
		err = page.read(ctx, b, query.Get("before"))
	}
	if err != nil {
		h.failed(w, v, failureOf(err))
		return
	}
	now := h.clock()
	page.Age = "Read at " + utc(now, now) + "."
	for i := range usages {
		page.Rules = append(page.Rules, newUsage(&usages[i]))
	}
	h.render(w, http.StatusOK, "account", &page)
}

func newUsage(u *spend.Usage) usageView {
	y := usageView{
		Rule: ruleName(u), Limit: u.Limit.String(), Used: u.Used.Decimal(), Held: u.Held.Decimal(), Remaining: u.Remaining.Decimal(),
		Grows: "not by waiting",
	}
	if !u.GrowsAt.IsZero() {
		y.Grows = fullTime(u.GrowsAt)
	}
	return y
}

// ruleName names the rule, and the value of its tag if the figures belong to one.
func ruleName(u *spend.Usage) string {
	if u.Tag == "" {
		return humanize.Line(u.Rule)
	}
	return humanize.Line(u.Rule + " " + u.Tag + "=" + u.Value)
}

// fullTime writes a time of the past with its date.
func fullTime(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

// read reads a page of entries, which begins before the entry that a text of position names.
func (p *accountPage) read(ctx context.Context, b *spend.Budgets, before string) error {
	o := &spend.HistoryOptions{Limit: pageEntries}
	if before != "" {
		seq, at, found := strings.Cut(before, ".")
		var errs [2]error
		var micros int64
		o.Before.Seq, errs[0] = strconv.ParseInt(seq, 10, 64)
		micros, errs[1] = strconv.ParseInt(at, 10, 64)
		if !found || errors.Join(errs[:]...) != nil {
			return fmt.Errorf("%w: the address names no entry", spend.ErrRequest)
		}
		o.Before.At = time.UnixMicro(micros)
	}
	var first, last spend.Entry
	read := 0
	for e, err := range b.History(ctx, p.Account, o) {
		if err != nil {
			return err
		}
		if read++; read == 1 {
			first = e
		}
		last = e
		row := refusal{At: fullTime(e.At), ID: e.RequestID, Amount: e.Amount.String()}
		if len(e.Refused) > 0 {
			row.By = humanize.Line(strings.Join(e.Refused, ", "))
			p.Declines = append(p.Declines, row)
		}
		if len(e.Shadow) > 0 {
			row.By = humanize.Line(strings.Join(e.Shadow, ", "))
			p.Shadow = append(p.Shadow, row)
		}
	}
	switch {
	case read == 0:
		p.Range = "The ledger has no entry of this account."
		if before != "" {
			p.Range = "The ledger has no older entry of this account."
		}
		return nil
	case read == pageEntries && last.Seq > 1:
		p.Older = link("account", "budget", p.Budget, "account", p.Account, "before", fmt.Sprintf("%d.%d", last.Seq, last.At.UnixMicro()))
	case last.Seq > 1:
		p.Range = "Prune has removed the entries before. "
	}
	p.Range += fmt.Sprintf("Among %s from %s to %s.", plural(int64(read), "entry", "entries"), fullTime(last.At), fullTime(first.At))
	return nil
}

// explainPage is the page of one decision.
type explainPage struct {
	frame
	ID, Verdict, When string
	Why               []reason
	Rules             []ruleView
}

// reason is a rule that refused.
type reason struct{ Account, Rule, Figures, Then string }

// ruleView is a rule with that which it had counted.
type ruleView struct {
	Account, Rule, Figures string
	Shadow, Refused        bool
	Counted                []countedView
	Omitted                int
	Incomplete             string
}

type countedView struct{ Dated, Used, Held, ID string }

// explained explains a decision.
func (h *Handler) explained(v *visit) (x spend.Explanation, f *failure) {
	query := v.URL.Query()
	b, f := h.budget(query.Get("budget"))
	if f != nil {
		return x, f
	}
	ctx, cancel := context.WithTimeout(v.Context(), explainTimeout)
	defer cancel()
	select {
	case h.explaining <- struct{}{}:
		defer func() { <-h.explaining }()
	case <-ctx.Done():
		return x, failureOf(ctx.Err())
	}
	x, err := b.Explain(ctx, query.Get("id"))
	if err != nil {
		return x, failureOf(err)
	}
	return x, nil
}

// explain shows why a decision was made.
func (h *Handler) explain(w http.ResponseWriter, v *visit) {
	x, f := h.explained(v)
	if f != nil {
		h.failed(w, v, f)
		return
	}
	d := &x.Decision
	page := explainPage{frame: h.frame("Request "+humanize.Key(short(x.ID)), "spends"), ID: humanize.Key(x.ID)}
	switch {
	case d.Approved && d.Amount != (spend.Money{}):
		page.Verdict = "Approved: " + d.Amount.String()
	case d.Approved:
		page.Verdict = "Approved"
	case d.Canceled && len(d.Declines) == 0:
		page.Verdict = "Canceled"
	default:
		page.Verdict = "Declined"
	}
	page.When = fmt.Sprintf("At %s, by revision %d of the rules.", fullTime(d.At), x.Revision)
	if d.Canceled {
		page.When += " The request was canceled."
	}
	for i := range d.Declines {
		page.Why = append(page.Why, newReason(&d.Declines[i], d.At))
	}
	for i := range d.Shadow {
		u := &d.Shadow[i]
		page.Why = append(page.Why, reason{accountName(u.Account), ruleName(u), usageText(u), "in the shadow: it would have declined"})
	}
	for i := range x.Rules {
		page.Rules = append(page.Rules, newRuleView(&x.Rules[i]))
	}
	h.render(w, http.StatusOK, "explain", page)
}

func accountName(a spend.Account) string { return humanize.Key(a.Budget + "/" + a.Name) }

func usageText(u *spend.Usage) string {
	return fmt.Sprintf("%s of %s used, %s held", u.Used.Decimal(), u.Limit, u.Held.Decimal())
}

// newReason tells why a rule refused at a time, and when the amount would have fit.
func newReason(x *spend.Decline, at time.Time) reason {
	if x.Frozen != "" {
		return reason{accountName(x.Account), "frozen", humanize.Line(x.Frozen), "until somebody unfreezes the account"}
	}
	y := reason{accountName(x.Account), ruleName(&x.Usage), usageText(&x.Usage), "no wait would have helped"}
	if x.RetryAfter < store.Never {
		y.Then = fmt.Sprintf("would have fit %s later, at %s", humanize.Span(x.RetryAfter), fullTime(at.Add(x.RetryAfter)))
		if x.AtLeast {
			y.Then += " or later"
		}
	}
	return y
}

func newRuleView(r *spend.RuleHistory) ruleView {
	y := ruleView{
		Account: accountName(r.Account), Rule: humanize.Line(strings.TrimSpace(r.Rule + " " + r.Value)), Shadow: r.Shadow, Refused: r.Refused,
		Figures: fmt.Sprintf("%s of %s used, %s held", r.Used.Decimal(), r.Limit, r.Held.Decimal()), Omitted: r.Omitted, Incomplete: r.Incomplete,
	}
	shown := r.Counted
	if more := len(shown) - pageCounted; more > 0 {
		shown, y.Omitted = shown[more:], y.Omitted+more
	}
	for _, c := range slices.Backward(shown) {
		y.Counted = append(y.Counted, countedView{fullTime(c.Dated), c.Used.Decimal(), c.Held.Decimal(), c.ID})
	}
	return y
}
