package spendreport

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/brimgo/brim/internal/plot"
	"github.com/brimgo/brim/spend"
)

// Unknowns are the things that no backtest knows.
const Unknowns = "It is not known whether a declined request would have come again, or how much of one that was declined\n" +
	"would have been captured. Each account is judged alone, with the limits and plans that it had."

// Flips counts decisions that other rules would have made otherwise.
type Flips struct {
	Decline int64 `json:"would_decline"`
	Approve int64 `json:"would_approve"`
	Reduce  int64 `json:"would_reduce"` // to a smaller amount
}

func (c *Flips) add(f *spend.Flip) {
	switch {
	case !f.Approved:
		c.Decline++
	case f.Entry.Kind == "decline":
		c.Approve++
	default:
		c.Reduce++
	}
}

// Total returns the number of all flips.
func (c *Flips) Total() int64 { return c.Decline + c.Approve + c.Reduce }

type (
	// RuleFlips are the flips by one rule.
	RuleFlips struct {
		Rule string `json:"rule"`
		Flips
	}
	// AccountFlips are the flips on one account.
	AccountFlips struct {
		Account string `json:"account"`
		Flips
	}
	// DayFlips are the flips of one day in UTC.
	DayFlips struct {
		Day string `json:"day"`
		Flips
	}
	// Skipped is an account that was not replayed.
	Skipped struct {
		Account string `json:"account"`
		Why     string `json:"why"`
	}
)

// Summary is the JSON form of the outcome of a backtest.
type Summary struct {
	Budget    string    `json:"budget"`
	Since     time.Time `json:"since"`
	Complete  bool      `json:"complete"` // false if the context ended before
	Accounts  int64     `json:"accounts"`
	Entries   int64     `json:"entries"`
	Decisions int64     `json:"decisions"`
	Flips
	Rules       []RuleFlips    `json:"rules"`
	TopAccounts []AccountFlips `json:"top_accounts"`
	Days        []DayFlips     `json:"days"`
	Skipped     int64          `json:"skipped"`
	TopSkipped  []Skipped      `json:"top_skipped"`
}

// Flip is the JSON form of a decision that flips.
type Flip struct {
	spend.Flip
	Entry Entry `json:"entry"`
}

// NewFlip returns the form of a decision that flips.
func NewFlip(f spend.Flip) Flip { return Flip{f, NewEntry(f.Entry)} }

// By returns the rules that make the difference: those of the other rules that would refuse, or
// those that have declined.
func (f *Flip) By() []string {
	if f.Approved {
		return f.Entry.Refused
	}
	return f.Refused
}

// Backtest sums up the backtest of one budget.
type Backtest struct {
	Course *plot.Timeline // gets the decisions, unless it is nil
	Top    int            // the number of accounts in the Summary
	Flip   func(Flip) error

	out         Summary
	rules, days map[string]*Flips
	accounts    []AccountFlips
	account     Flips          // of the account that is replayed
	flipped     map[int64]bool // numbers of its entries that flip
}

// Run runs the backtest, with the options o but for their functions, and returns its summary. If
// ctx ends before, the summary is that of the part that was done, and Run returns no error.
func (t *Backtest) Run(ctx context.Context, b *spend.Budgets, o spend.BacktestOptions) (*Summary, error) {
	t.out = Summary{Budget: b.Name(), Since: o.Since.UTC()}
	t.rules, t.days, t.flipped = make(map[string]*Flips), make(map[string]*Flips), make(map[int64]bool)
	o.Flip, o.Decision, o.Done = t.flip, t.decision, t.done
	err := b.Backtest(ctx, o)
	if err != nil && ctx.Err() == nil {
		return nil, err
	}
	t.out.Complete = err == nil
	t.sum()
	return &t.out, nil
}

// flip counts a decision that flips.
func (t *Backtest) flip(f spend.Flip) error {
	out := NewFlip(f)
	t.out.add(&f)
	t.account.add(&f)
	count(t.days, f.Entry.At.Format(time.DateOnly), &f)
	for _, rule := range out.By() {
		count(t.rules, rule, &f)
	}
	t.flipped[f.Entry.Seq] = true
	return t.Flip(out)
}

func count(in map[string]*Flips, key string, f *spend.Flip) {
	if in[key] == nil {
		in[key] = new(Flips)
	}
	in[key].add(f)
}

// decision counts a decision, after its flip.
func (t *Backtest) decision(e spend.Entry) error {
	t.out.Decisions++
	if t.Course != nil {
		t.Course.Add(e.At, !t.flipped[e.Seq])
	}
	return nil
}

// done counts an account.
func (t *Backtest) done(r spend.Replayed) error {
	t.out.Accounts++
	t.out.Entries += r.Entries
	if r.Skipped != "" {
		if t.out.Skipped++; len(t.out.TopSkipped) < t.Top {
			t.out.TopSkipped = append(t.out.TopSkipped, Skipped{r.Name, r.Skipped})
		}
		return nil
	}
	if t.account.Total() > 0 {
		t.accounts = append(t.accounts, AccountFlips{r.Name, t.account})
	}
	t.account = Flips{}
	clear(t.flipped)
	return nil
}

// sum completes the summary.
func (t *Backtest) sum() {
	r := &t.out
	r.TopSkipped = append([]Skipped{}, r.TopSkipped...)
	r.Rules, r.TopAccounts, r.Days = []RuleFlips{}, []AccountFlips{}, []DayFlips{}
	for _, name := range slices.Sorted(maps.Keys(t.rules)) {
		r.Rules = append(r.Rules, RuleFlips{name, *t.rules[name]})
	}
	for _, day := range slices.Sorted(maps.Keys(t.days)) {
		r.Days = append(r.Days, DayFlips{day, *t.days[day]})
	}
	slices.SortStableFunc(r.Rules, func(x, y RuleFlips) int { return cmp.Compare(y.Total(), x.Total()) })
	slices.SortStableFunc(t.accounts, func(x, y AccountFlips) int { return cmp.Compare(y.Total(), x.Total()) })
	r.TopAccounts = append(r.TopAccounts, t.accounts[:min(t.Top, len(t.accounts))]...)
}
