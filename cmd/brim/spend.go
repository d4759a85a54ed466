package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	_ "time/tzdata" // the days of a budget must not depend on the machine's time zones

	"github.com/spf13/cobra"

	"github.com/brimgo/brim/cmd/brim/internal/budgetfile"
	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/memledger"
)

const spendHelp = `Decides spends against a budget: exact money, several rules at once, holds, and requests that can
be sent again.

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
    - {name: shops, calendar: 100.00, period: day, zone: Europe/Berlin, per: merchant}
    - {name: large, count: 3, window: 24h, where_amount: {at_least: 250.00}}
    - {name: net, rolling: 800.00, window: 30d, counts_credits: true}
    - {name: bursts, count: 5, window: 10m}
    - {name: often, count: 20, period: day, zone: Europe/Berlin}
    - {name: travel, rolling: 400.00, window: 7d, where: {category: [travel, hotel]}}
    - {name: no casinos, per_transaction: 0, where: {mcc: "7995"}}
    - {name: abroad, rolling: 100.00, window: 7d, where_not: {country: [DE, AT]}, at_most: 1000.00}

A currency may have a scale: with "currency: USD:8" all amounts have up to 8 decimal places, and a
price of 0.00000315 is exact. Nothing is rounded; an amount with more places is an error.

Every rule must agree. An account may have a limit of its own for a rule, up to at_most; see brim
spend limits. A rule with per holds for each value of the tag. A credit makes room in the rules with
counts_credits. An unknown field is an error that names the line. The field "also" lists
further budgets, whose accounts the flag --also names. JSON is YAML, too: docs/budget.schema.json describes
the form of one budget, and brim spend rules prints it.

Each request has an --id, unique in the store. A request that is sent again gets its first answer
again. Without --id, brim makes up an ID and shows it. --store names the place of the ledger: a
bbolt file, or PostgreSQL beside the buckets.`

// spendFlags are the flags of all commands of brim spend.
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
		RunE: group,
	}
	cmd.PersistentFlags().StringVar(&f.budget, "budget", "", "the YAML file with the budget")
	cmd.AddCommand(
		a.spendChargeCommand(f, "charge"), a.spendChargeCommand(f, "authorize"), a.spendChargeCommand(f, "record"),
		a.spendChargeCommand(f, "credit"), a.spendChargeCommand(f, "upto"), a.spendChargeCommand(f, "able"),
		a.spendIncreaseCommand(f),
		a.spendPruneCommand(f), a.spendForgetCommand(f), a.spendVerifyCommand(f),
		a.spendCaptureCommand(f), a.spendDecreaseCommand(f), a.spendExtendCommand(f), a.spendVoidCommand(f), a.spendCancelCommand(f),
		a.spendRefundCommand(f), a.spendLimitsCommand(f), a.spendFreezeCommand(f, "freeze"), a.spendFreezeCommand(f, "unfreeze"),
		a.spendFreezeCommand(f, "mend"),
		a.spendRemainingCommand(f), a.spendHoldsCommand(f), a.spendGetCommand(f), a.spendHistoryCommand(f), a.spendExportCommand(f),
		a.spendReplayCommand(f), a.spendGenerateCommand(), a.spendRulesCommand(f))
	return cmd
}

// budget reads the budget file.
func (a *app) budget(ctx context.Context, f *spendFlags) (*budgetfile.File, error) {
	if f.budget == "" {
		return nil, usagef("--budget is missing: the YAML file with the budget")
	}
	r, err := a.input(ctx, f.budget)
	if err != nil {
		return nil, err
	}
	defer r.close()
	file, err := budgetfile.Read(r)
	if err == nil { // before a store is opened, which may create it
		_, err = spend.New(memledger.New(nil), file.Budget, &file.Options)
	}
	if err != nil {
		return nil, dataError{fmt.Errorf("%s: %w", f.budget, err)}
	}
	return file, nil
}

// withBudget reads the budget file, opens the ledger, calls do and closes the ledger.
func (a *app) withBudget(ctx context.Context, f *spendFlags, create bool,
	do func(*spend.Budgets, *budgetfile.File) error,
) (err error) {
	file, err := a.budget(ctx, f)
	if err != nil {
		return err
	}
	l, err := a.openLedger(ctx, create)
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
		return err
	}
	return spendError(do(b, file))
}

// spendError gives the errors of package spend their exit status. The first group are malformed
// requests. The second group are requests that contradict the ledger.
func spendError(err error) error {
	for _, wrong := range []error{spend.ErrRequest, spend.ErrAmount, spend.ErrCurrency} {
		if errors.Is(err, wrong) {
			return usageError{err}
		}
	}
	for _, wrong := range []error{
		spend.ErrBudget, spend.ErrIDReused, spend.ErrUnknownSpend, spend.ErrHoldEnded, spend.ErrHoldExpired, spend.ErrNotHeld, spend.ErrNotCaptured,
	} {
		if errors.Is(err, wrong) {
			return dataError{err}
		}
	}
	return err
}

// requestID returns the value of --id, or a new ID.
func (f *spendFlags) requestID() string {
	if f.id != "" {
		return f.id
	}
	return "cli-" + rand.Text()
}

func (f *spendFlags) addID(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.id, "id", "",
		"ID of the request, unique in the store (default: a new one, which is shown)")
}
