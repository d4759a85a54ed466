package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/brimgo/brim/cmd/brim/internal/simulate"
	"github.com/brimgo/brim/internal/duration"
	"github.com/brimgo/brim/internal/table"
	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/ledger"
)

// unknowns are the things that no backtest knows.
const unknowns = "It is not known whether a declined request would have come again, or how much of one that was declined\n" +
	"would have been captured. Each account is judged alone, with the limits and plans that it had."

func (a *app) spendBacktestCommand(f *spendFlags) *cobra.Command {
	var rules, plot string
	since, top := duration.Value(30*24*time.Hour), 10
	cmd := newCommand("spend/backtest")
	cmd.Flags().StringVar(&rules, "rules", "", "the budget file with the other rules")
	cmd.Flags().Var(&since, "since", "how far back the decisions go, like 24h or 30d")
	cmd.Flags().Lookup("since").DefValue = "30d"
	cmd.Flags().IntVar(&top, "top", top, "number of accounts to show")
	cmd.Flags().StringVar(&plot, "plot", "", "file to write a picture to, as SVG")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		switch {
		case rules == "":
			return usagef("--rules is missing: the budget file with the other rules")
		case since <= 0:
			return usagef("--since is %v; it must be positive", since.Std())
		case top < 0:
			return usagef("--top is %d; it must be 0 or more", top)
		}
		if err := checkPicture(plot); err != nil {
			return err
		}
		budgets, err := a.budgetFile(cmd.Context(), f, rules)
		if err != nil {
			return err
		}
		var course *simulate.Timeline
		if plot != "" {
			course = simulate.Daily()
		}
		return a.withLedger(cmd.Context(), false, func(l ledger.Ledger) error {
			for _, budget := range budgets {
				b, err := spend.Open(cmd.Context(), l, budget.Name, nil)
				if err != nil {
					return err
				}
				t := &backtest{app: a, Budgets: b, course: course, top: top}
				t.report.Budget, t.report.Since = budget.Name, a.now().Add(-since.Std()).UTC()
				if err := t.run(cmd.Context(), budget); err != nil {
					return err
				}
			}
			if course == nil {
				return nil
			}
			return a.savePicture(plot, course.FlipPicture("brim spend backtest --rules "+rules))
		})
	}
	return cmd
}

// flips counts decisions that the other rules would have made otherwise.
type flips struct {
	Decline int64 `json:"would_decline"`
	Approve int64 `json:"would_approve"`
	Reduce  int64 `json:"would_reduce"` // to a smaller amount
}

func (c *flips) add(f *spend.Flip) {
	switch {
	case !f.Approved:
		c.Decline++
	case f.Entry.Kind == "decline":
		c.Approve++
	default:
		c.Reduce++
	}
}

func (c *flips) total() int64 { return c.Decline + c.Approve + c.Reduce }

func (c *flips) cells() []string {
	return []string{strconv.FormatInt(c.Decline, 10), strconv.FormatInt(c.Approve, 10), strconv.FormatInt(c.Reduce, 10)}
}

type (
	ruleFlips struct {
		Rule string `json:"rule"`
		flips
	}
	accountFlips struct {
		Account string `json:"account"`
		flips
	}
	dayFlips struct {
		Day string `json:"day"`
		flips
	}
	skippedJSON struct {
		Account string `json:"account"`
		Why     string `json:"why"`
	}
)

// backtestJSON is the last line of a backtest with --json.
type backtestJSON struct {
	Budget    string    `json:"budget"`
	Since     time.Time `json:"since"`
	Complete  bool      `json:"complete"` // false after an interrupt
	Accounts  int64     `json:"accounts"`
	Entries   int64     `json:"entries"`
	Decisions int64     `json:"decisions"`
	flips
	Rules       []ruleFlips    `json:"rules"`
	TopAccounts []accountFlips `json:"top_accounts"`
	Days        []dayFlips     `json:"days"`
	Skipped     int64          `json:"skipped"`
	TopSkipped  []skippedJSON  `json:"top_skipped"`
}

// flipJSON is the form in which --json prints a decision that flips.
type flipJSON struct {
	spend.Flip
	Entry spendEntryJSON `json:"entry"`
}

// backtest is the backtest of one budget.
type backtest struct {
	*app
	*spend.Budgets
	course *simulate.Timeline // nil without --plot
	top    int

	report      backtestJSON
	rules, days map[string]*flips
	accounts    []accountFlips
	account     flips          // of the account that is replayed
	flipped     map[int64]bool // numbers of its entries that flip
}

func (t *backtest) run(ctx context.Context, rules spend.Budget) error {
	t.rules, t.days, t.flipped = make(map[string]*flips), make(map[string]*flips), make(map[int64]bool)
	err := t.Backtest(ctx, spend.BacktestOptions{
		Rules: rules, Since: t.report.Since, Flip: t.flip,
		Decision: t.decision, Done: t.done,
	})
	if err != nil && ctx.Err() == nil {
		return err
	}
	t.report.Complete = err == nil
	if err := t.describe(); err != nil {
		return err
	}
	return context.Cause(ctx)
}

// flip counts and prints a decision that flips.
func (t *backtest) flip(f spend.Flip) error {
	t.report.add(&f)
	t.account.add(&f)
	tally(t.days, f.Entry.At.Format(time.DateOnly), &f)
	by := f.Refused
	if f.Approved {
		by = f.Entry.Refused
	}
	for _, rule := range by {
		tally(t.rules, rule, &f)
	}
	t.flipped[f.Entry.Seq] = true
	if t.json {
		return t.printJSON(flipJSON{f, spendEntryJSON{f.Entry, f.Entry.TTL.Seconds()}})
	}
	outcome := "would be declined by " + strings.Join(f.Refused, ", ")
	switch {
	case f.Approved && f.Entry.Kind == "decline":
		outcome = fmt.Sprintf("would be approved for %v, and was declined by %s", f.Amount, strings.Join(by, ", "))
	case f.Approved:
		outcome = fmt.Sprintf("would be approved for %v", f.Amount)
	}
	_, err := fmt.Fprintf(t.stdout, "%s  %s  %s  %v  %s\n", f.Entry.At.Format(time.RFC3339), printable(f.Entry.Name),
		printable(f.Entry.RequestID), f.Entry.Amount, oneLine(outcome))
	return err
}

func tally(in map[string]*flips, key string, f *spend.Flip) {
	if in[key] == nil {
		in[key] = new(flips)
	}
	in[key].add(f)
}

// done counts an account.
func (t *backtest) done(r spend.Replayed) error {
	t.report.Accounts++
	t.report.Entries += r.Entries
	t.report.Decisions += r.Decisions
	if r.Skipped != "" {
		if t.report.Skipped++; len(t.report.TopSkipped) < t.top {
			t.report.TopSkipped = append(t.report.TopSkipped, skippedJSON{r.Name, r.Skipped})
		}
		return nil
	}
	if t.account.total() > 0 {
		t.accounts = append(t.accounts, accountFlips{r.Name, t.account})
	}
	t.account = flips{}
	clear(t.flipped)
	return nil
}

// decision adds a decision to the picture.
func (t *backtest) decision(e spend.Entry) error {
	if t.course != nil {
		t.course.Add(e.At, !t.flipped[e.Seq])
	}
	return nil
}

// describe prints the summary.
func (t *backtest) describe() error {
	r := &t.report
	r.TopSkipped = append([]skippedJSON{}, r.TopSkipped...)
	r.Rules, r.TopAccounts, r.Days = []ruleFlips{}, []accountFlips{}, []dayFlips{}
	for _, name := range slices.Sorted(maps.Keys(t.rules)) {
		r.Rules = append(r.Rules, ruleFlips{name, *t.rules[name]})
	}
	for _, day := range slices.Sorted(maps.Keys(t.days)) {
		r.Days = append(r.Days, dayFlips{day, *t.days[day]})
	}
	slices.SortStableFunc(r.Rules, func(x, y ruleFlips) int { return cmp.Compare(y.total(), x.total()) })
	slices.SortStableFunc(t.accounts, func(x, y accountFlips) int { return cmp.Compare(y.total(), x.total()) })
	r.TopAccounts = append(r.TopAccounts, t.accounts[:min(t.top, len(t.accounts))]...)
	if t.json {
		return t.printJSON(r)
	}
	rules, accounts, days := flipTable("RULE"), flipTable("ACCOUNT"), flipTable("DAY")
	for _, x := range r.Rules {
		rules.Add(append(x.cells(), printable(x.Rule))...)
	}
	for _, x := range r.TopAccounts {
		accounts.Add(append(x.cells(), printable(x.Account))...)
	}
	for _, x := range r.Days {
		days.Add(append(x.cells(), x.Day)...)
	}
	if r.total() > 0 {
		fmt.Fprintln(t.stdout)
	}
	fmt.Fprintf(t.stdout, "%s: of %d decisions on %d accounts since %s%s, %d would be declined, %d approved, and %d approved for less\n",
		printable(r.Budget), r.Decisions, r.Accounts-r.Skipped, r.Since.Format(time.RFC3339), unless(r.Complete, ", in the part that was replayed"), r.Decline, r.Approve, r.Reduce)
	if r.Skipped > 0 {
		fmt.Fprintf(t.stdout, "accounts skipped: %d\n", r.Skipped)
	}
	for _, s := range r.TopSkipped {
		fmt.Fprintf(t.stdout, "  %s: %s\n", printable(s.Account), printable(s.Why))
	}
	fmt.Fprintln(t.stdout, unknowns)
	if r.total() > 0 {
		fmt.Fprintln(t.stdout)
	}
	return t.printTables(rules, accounts, days)
}

func flipTable(of string) *table.Table {
	return table.New(table.Right("WOULD DECLINE"), table.Right("WOULD APPROVE"), table.Right("WOULD REDUCE"), table.Left(of))
}
