package main

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/brimgo/brim/internal/duration"
	"github.com/brimgo/brim/internal/plot"
	"github.com/brimgo/brim/internal/spendreport"
	"github.com/brimgo/brim/internal/table"
	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/ledger"
)

func (a *app) spendBacktestCommand(f *spendFlags) *cobra.Command {
	var rules, account, picture string
	since, top := duration.Value(30*24*time.Hour), 10
	cmd := newCommand("spend/backtest")
	cmd.Flags().StringVar(&rules, "rules", "", "the budget file with the other rules")
	cmd.Flags().Var(&since, "since", "how far back the decisions go, like 24h or 30d")
	cmd.Flags().Lookup("since").DefValue = "30d"
	cmd.Flags().IntVar(&top, "top", top, "number of accounts to show")
	cmd.Flags().StringVar(&account, "account", "", "the only account to replay (default: all)")
	cmd.Flags().StringVar(&picture, "plot", "", "file to write a picture to, as SVG")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		switch {
		case rules == "":
			return usagef("--rules is missing: the budget file with the other rules")
		case since <= 0:
			return usagef("--since is %v; it must be positive", since.Std())
		case top < 0:
			return usagef("--top is %d; it must be 0 or more", top)
		}
		if err := checkPicture(picture); err != nil {
			return err
		}
		budgets, err := a.budgetFile(cmd.Context(), f, rules)
		if err != nil {
			return err
		}
		var course *plot.Timeline
		if picture != "" {
			course = plot.Daily()
		}
		return a.withLedger(cmd.Context(), false, func(l ledger.Ledger) error {
			for _, budget := range budgets {
				b, err := spend.Open(cmd.Context(), l, budget.Name, nil)
				if err != nil {
					return err
				}
				t := &spendreport.Backtest{Course: course, Top: top}
				o := spend.BacktestOptions{Rules: budget, Account: account, Since: a.now().Add(-since.Std())}
				if err := a.backtest(cmd.Context(), b, t, o); err != nil {
					return err
				}
			}
			if course == nil {
				return nil
			}
			return a.savePicture(picture, course.FlipPicture("brim spend backtest --rules "+rules, 0))
		})
	}
	return cmd
}

// backtest runs the backtest of one budget, and prints its flips and its summary.
func (a *app) backtest(ctx context.Context, b *spend.Budgets, t *spendreport.Backtest, o spend.BacktestOptions) error {
	t.Flip = a.printFlip
	r, err := t.Run(ctx, b, o)
	if err == nil {
		err = a.describeBacktest(r)
	}
	return cmp.Or(err, context.Cause(ctx))
}

// printFlip prints a decision that flips.
func (a *app) printFlip(f spendreport.Flip) error {
	if a.json {
		return a.printJSON(f)
	}
	outcome := "would be declined by " + strings.Join(f.Refused, ", ")
	switch {
	case f.Approved && f.Entry.Kind == "decline":
		outcome = fmt.Sprintf("would be approved for %v, and was declined by %s", f.Amount, strings.Join(f.By(), ", "))
	case f.Approved:
		outcome = fmt.Sprintf("would be approved for %v", f.Amount)
	}
	_, err := fmt.Fprintf(a.stdout, "%s  %s  %s  %v  %s\n", f.Entry.At.Format(time.RFC3339), printable(f.Entry.Name),
		printable(f.Entry.RequestID), f.Entry.Amount, oneLine(outcome))
	return err
}

// describeBacktest prints the summary.
func (a *app) describeBacktest(r *spendreport.Summary) error {
	if a.json {
		return a.printJSON(r)
	}
	rules, accounts, days := flipTable("RULE"), flipTable("ACCOUNT"), flipTable("DAY")
	for i := range r.Rules {
		rules.Add(append(flipCells(&r.Rules[i].Flips), printable(r.Rules[i].Rule))...)
	}
	for i := range r.TopAccounts {
		accounts.Add(append(flipCells(&r.TopAccounts[i].Flips), printable(r.TopAccounts[i].Account))...)
	}
	for i := range r.Days {
		days.Add(append(flipCells(&r.Days[i].Flips), r.Days[i].Day)...)
	}
	if r.Total() > 0 {
		fmt.Fprintln(a.stdout)
	}
	fmt.Fprintf(a.stdout, "%s: of %d decisions on %d accounts since %s%s, %d would be declined, %d approved, and %d approved for less\n",
		printable(r.Budget), r.Decisions, r.Accounts-r.Skipped, r.Since.Format(time.RFC3339), unless(r.Complete, ", in the part that was replayed"), r.Decline, r.Approve, r.Reduce)
	if r.Skipped > 0 {
		fmt.Fprintf(a.stdout, "accounts skipped: %d\n", r.Skipped)
	}
	for _, s := range r.TopSkipped {
		fmt.Fprintf(a.stdout, "  %s: %s\n", printable(s.Account), printable(s.Why))
	}
	fmt.Fprintln(a.stdout, spendreport.Unknowns)
	if r.Total() > 0 {
		fmt.Fprintln(a.stdout)
	}
	return a.printTables(rules, accounts, days)
}

func flipTable(of string) *table.Table {
	return table.New(table.Right("WOULD DECLINE"), table.Right("WOULD APPROVE"), table.Right("WOULD REDUCE"), table.Left(of))
}

func flipCells(c *spendreport.Flips) []string {
	return []string{strconv.FormatInt(c.Decline, 10), strconv.FormatInt(c.Approve, 10), strconv.FormatInt(c.Reduce, 10)}
}
