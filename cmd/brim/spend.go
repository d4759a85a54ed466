package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	_ "time/tzdata" // a budget's days must not depend on what is installed where it is decided

	"github.com/spf13/cobra"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/cmd/brim/internal/budgetfile"
	"github.com/brimgo/brim/internal/duration"
	"github.com/brimgo/brim/internal/table"
	"github.com/brimgo/brim/spend"
)

const spendHelp = `Decides spends against a budget: exact money, several rules at once, holds, and requests that can be sent again.

A budget is a YAML file, given with --budget:

  budget: cards
  currency: EUR
  hold_ttl: 7d            # how long a hold lasts; this is the default
  keep_ids: 90d           # how long an ID is remembered; this is the default
  rules:
    - {name: month, rolling: 1000.00, window: 30d}
    - {name: day, calendar: 200.00, period: day, zone: Europe/Berlin}
    - {name: smooth, leaky: 300.00, drains_in: 24h}
    - {name: single, per_transaction: 500.00}
    - {name: ever, lifetime: 20000.00}
    - {name: bursts, count: 5, window: 10m}
    - {name: travel, rolling: 400.00, window: 7d, where: {category: [travel, hotel]}}

Every rule must agree. A field that is not known is an error that names the line. Under "also" stands a list of further
budgets, whose accounts --also names.

Each request has an --id, unique in the store: sent again, it gets its first answer again. Without --id one is made up and
shown. The ledger is kept where --store says: in the bbolt file, or in PostgreSQL beside the buckets.`

// spendFlags are those of all commands of brim spend.
type spendFlags struct {
	budget string
	id     string
}

func (a *app) spendCommand() *cobra.Command {
	f := &spendFlags{}
	cmd := &cobra.Command{
		Use:   "spend",
		Short: "Decide spends against a budget",
		Long:  spendHelp,
		Example: `  brim spend authorize card:7 30.00 --budget cards.yaml --id pay-1 --tag category=travel
  brim spend capture pay-1 28.50 --budget cards.yaml --final
  brim spend remaining card:7 --budget cards.yaml`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			return usagef("unknown command %q of brim spend", args[0])
		},
	}
	cmd.PersistentFlags().StringVar(&f.budget, "budget", "", "the YAML file with the budget")
	cmd.AddCommand(
		a.spendChargeCommand(f, "charge"), a.spendChargeCommand(f, "authorize"), a.spendChargeCommand(f, "record"),
		a.spendCaptureCommand(f), a.spendVoidCommand(f), a.spendRefundCommand(f),
		a.spendRemainingCommand(f), a.spendHistoryCommand(f), a.spendReplayCommand(f), a.spendGenerateCommand(),
	)
	return cmd
}

// budget reads the budget file.
func (f *spendFlags) file() (*budgetfile.File, error) {
	if f.budget == "" {
		return nil, usagef("--budget is missing: the YAML file with the budget; see brim spend --help")
	}
	r, err := os.Open(f.budget)
	if err != nil {
		return nil, dataError{err}
	}
	defer func() { _ = r.Close() }() // it was only read
	file, err := budgetfile.Read(r)
	if err != nil {
		return nil, dataError{fmt.Errorf("%s: %w", f.budget, err)}
	}
	return file, nil
}

// withBudget opens the ledger, calls do and closes it.
func (a *app) withBudget(ctx context.Context, f *spendFlags, absent absence, do func(*spend.Budgets, *budgetfile.File) error) (err error) {
	file, err := f.file()
	if err != nil {
		return err
	}
	l, err := a.openLedger(ctx, absent)
	if err != nil {
		return err
	}
	defer func() {
		if e := l.end(); e != nil && (err == nil || errors.As(err, new(status))) {
			err = e
		}
	}()
	b, err := spend.New(l.Ledger, file.Budget, &file.Options)
	if err != nil {
		return dataError{fmt.Errorf("%s: %w", f.budget, err)}
	}
	return spendError(do(b, file))
}

// spendError gives the errors of package spend their exit status: the first are of who called, the others of what was asked.
func spendError(err error) error {
	for _, wrong := range []error{spend.ErrRequest, spend.ErrAmount, spend.ErrCurrency} {
		if errors.Is(err, wrong) {
			return usageError{err}
		}
	}
	for _, wrong := range []error{
		spend.ErrIDReused, spend.ErrUnknownSpend, spend.ErrHoldEnded, spend.ErrHoldExpired, spend.ErrNotHeld, spend.ErrNotCaptured,
	} {
		if errors.Is(err, wrong) {
			return dataError{err}
		}
	}
	return err
}

// requestID is the flag --id, or a new one.
func (f *spendFlags) requestID() string {
	if f.id != "" {
		return f.id
	}
	return "cli-" + rand.Text()
}

func (f *spendFlags) addID(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.id, "id", "", "the request's ID, unique in the store (default: made up and shown)")
}

// decisionJSON is a decision as --json prints it.
type decisionJSON struct {
	ID string `json:"id"`
	spend.Decision
	Declines   []declineJSON `json:"declines"`
	RetryAfter *float64      `json:"retry_after"` // seconds; null where it can never fit
}

type declineJSON struct {
	spend.Usage
	RetryAfter *float64 `json:"retry_after"`
}

// answerSpend prints a decision, and makes an exit status of it.
func (a *app) answerSpend(id string, d spend.Decision, done string) error {
	if a.json {
		out := decisionJSON{ID: id, Decision: d, Declines: []declineJSON{}, RetryAfter: secondsOrNull(d.RetryAfter)}
		for _, x := range d.Declines {
			out.Declines = append(out.Declines, declineJSON{x.Usage, secondsOrNull(x.RetryAfter)})
		}
		if err := a.printJSON(out); err != nil {
			return err
		}
	} else if err := a.describeSpend(id, d, done); err != nil {
		return err
	}
	switch {
	case d.Approved:
		return nil
	case d.RetryAfter == brim.Never:
		return status(exitNever)
	}
	return status(exitRefused)
}

func (a *app) describeSpend(id string, d spend.Decision, done string) error {
	again := ""
	if d.Replayed {
		again = ", as it was answered before"
	}
	if !d.Approved {
		done = "declined"
	}
	fmt.Fprintf(a.stdout, "%s%s: %s\n", done, again, printable(id))
	t := table.New(make([]table.Column, 3)...)
	for _, x := range d.Declines {
		when := "never fits by waiting"
		if x.RetryAfter != brim.Never {
			now := a.now()
			when = fmt.Sprintf("would fit in %s, at %s", span(x.RetryAfter), clockTime(now.Add(x.RetryAfter), now))
		}
		t.Add("  "+printable(x.Rule), fmt.Sprintf("%s of %s used, %s held", x.Used.Decimal(), x.Limit, x.Held.Decimal()), when)
	}
	return a.printTables(t)
}

// spendChargeCommand is charge, authorize and record: they ask alike.
func (a *app) spendChargeCommand(f *spendFlags, kind string) *cobra.Command {
	var (
		tags, also []string
		ttl        duration.Value
	)
	words := map[string]struct{ short, long, done, example string }{
		"charge": {
			"Spend an amount if every rule agrees", "Charges AMOUNT to ACCOUNT at once, if every rule agrees.", "charged",
			`  brim spend charge card:7 4.50 --budget cards.yaml --tag category=transit`,
		},
		"authorize": {
			"Hold an amount if every rule agrees",
			"Holds AMOUNT on ACCOUNT if every rule agrees. The hold ends by capture or void, or by itself after --ttl.", "authorized",
			`  brim spend authorize card:7 30.00 --budget cards.yaml --id pay-1 --ttl 2d`,
		},
		"record": {
			"Note what was spent anyway", "Notes that AMOUNT was spent from ACCOUNT, whatever the rules say. It is never declined.", "recorded",
			`  brim spend record card:7 12.00 --budget cards.yaml --id fee-2026-03`,
		},
	}[kind]
	cmd := &cobra.Command{
		Use:   kind + " ACCOUNT AMOUNT --budget FILE",
		Short: words.short,
		Long: words.long + `
AMOUNT is in the budget's currency, like 30.00. Sent again with the same --id, it gets its first answer again.

Exit status: 0 approved; 75 declined for now; 78 never fits by waiting; 65 the ID was used for another request.`,
		Example: words.example,
		Args:    exactArgs("ACCOUNT", "AMOUNT"),
	}
	f.addID(cmd)
	cmd.Flags().StringArrayVar(&tags, "tag", nil, "what rules can filter by, as category=travel; may be given several times")
	cmd.Flags().StringArrayVar(&also, "also", nil, "another account to charge with it, as BUDGET/ACCOUNT; may be given several times")
	if kind == "authorize" {
		cmd.Flags().Var(&ttl, "ttl", "how long the hold lasts, as 90s, 24h or 7d (default: the budget's)")
		cmd.Flags().Lookup("ttl").DefValue = ""
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.withBudget(cmd.Context(), f, create, func(b *spend.Budgets, file *budgetfile.File) error {
			r := spend.Request{ID: f.requestID(), Account: args[0], TTL: ttl.Std()}
			var err error
			if r.Amount, err = spend.ParseMoney(args[1], file.Budget.Currency); err != nil {
				return err
			}
			if r.Tags, err = parseTags(tags); err != nil {
				return err
			}
			for _, s := range also {
				budget, name, ok := strings.Cut(s, "/")
				if !ok {
					return usagef("--also is written BUDGET/ACCOUNT")
				}
				r.Also = append(r.Also, spend.Account{Budget: budget, Name: name})
			}
			call := map[string]func(context.Context, spend.Request) (spend.Decision, error){
				"charge": b.Charge, "authorize": b.Authorize, "record": b.Record,
			}[kind]
			d, err := call(cmd.Context(), r)
			if err != nil {
				return err
			}
			return a.answerSpend(r.ID, d, words.done)
		})
	}
	return cmd
}

func parseTags(list []string) (map[string]string, error) {
	var tags map[string]string
	for _, s := range list {
		name, value, ok := strings.Cut(s, "=")
		if !ok || name == "" {
			return nil, usagef("--tag is written like category=travel")
		}
		if _, twice := tags[name]; twice {
			return nil, usagef("--tag %s comes twice", name)
		}
		if tags == nil {
			tags = make(map[string]string)
		}
		tags[name] = value
	}
	return tags, nil
}

func (a *app) spendCaptureCommand(f *spendFlags) *cobra.Command {
	var final, force bool
	cmd := &cobra.Command{
		Use:   "capture HOLD AMOUNT --budget FILE",
		Short: "Take money that is held",
		Long: `Takes AMOUNT from the hold that the request HOLD began: part or all of it. The hold stays open for more, until --final
or until nothing of it is left.

Exit status: 0; 65 if the hold is unknown, has ended or expired, or holds less.`,
		Example: `  brim spend capture pay-1 28.50 --budget cards.yaml --final`,
		Args:    exactArgs("HOLD", "AMOUNT"),
	}
	f.addID(cmd)
	cmd.Flags().BoolVar(&final, "final", false, "release what is still held after this")
	cmd.Flags().BoolVar(&force, "force", false, "take more than is held, or from a hold that is no more: the money is gone already")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.withBudget(cmd.Context(), f, fail, func(b *spend.Budgets, file *budgetfile.File) error {
			amount, err := spend.ParseMoney(args[1], file.Budget.Currency)
			if err != nil {
				return err
			}
			id := f.requestID()
			d, err := b.Capture(cmd.Context(), spend.CaptureRequest{ID: id, HoldID: args[0], Amount: amount, Final: final, Force: force})
			if err != nil {
				return err
			}
			return a.answerSpend(id, d, "captured")
		})
	}
	return cmd
}

func (a *app) spendVoidCommand(f *spendFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "void HOLD --budget FILE",
		Short: "Release what is still held",
		Long: `Releases what the hold that the request HOLD began still holds, and ends it.

Exit status: 0; 65 if the hold is unknown, has ended or expired.`,
		Example: `  brim spend void pay-1 --budget cards.yaml`,
		Args:    exactArgs("HOLD"),
	}
	f.addID(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.withBudget(cmd.Context(), f, fail, func(b *spend.Budgets, _ *budgetfile.File) error {
			id := f.requestID()
			d, err := b.Void(cmd.Context(), spend.VoidRequest{ID: id, HoldID: args[0]})
			if err != nil {
				return err
			}
			return a.answerSpend(id, d, "voided")
		})
	}
	return cmd
}

func (a *app) spendRefundCommand(f *spendFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "refund SPEND AMOUNT --budget FILE",
		Short: "Give back what was taken",
		Long: `Gives AMOUNT back of what the request SPEND has charged, or what was captured of it; never more in all.

Exit status: 0; 65 if the spend is unknown, or less was taken.`,
		Example: `  brim spend refund pay-1 10.00 --budget cards.yaml`,
		Args:    exactArgs("SPEND", "AMOUNT"),
	}
	f.addID(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.withBudget(cmd.Context(), f, fail, func(b *spend.Budgets, file *budgetfile.File) error {
			amount, err := spend.ParseMoney(args[1], file.Budget.Currency)
			if err != nil {
				return err
			}
			id := f.requestID()
			d, err := b.Refund(cmd.Context(), spend.RefundRequest{ID: id, SpendID: args[0], Amount: amount})
			if err != nil {
				return err
			}
			return a.answerSpend(id, d, "refunded")
		})
	}
	return cmd
}
