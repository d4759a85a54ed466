package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	_ "time/tzdata" // the days of a budget must not depend on the machine's time zones

	"github.com/spf13/cobra"

	"github.com/brimgo/brim/cmd/brim/internal/budgetfile"
	"github.com/brimgo/brim/internal/duration"
	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/spend/memledger"
)

// spendFlags are the flags that commands of brim spend share.
type spendFlags struct {
	budget  string
	id      string
	keepIDs duration.Value
}

func (a *app) spendCommand() *cobra.Command {
	f := &spendFlags{}
	cmd := newCommand("spend")
	cmd.Args, cmd.RunE = cobra.ArbitraryArgs, group
	cmd.PersistentFlags().StringVar(&f.budget, "budget", "", "the name of a budget in the store")
	cmd.AddCommand(
		a.spendChargeCommand(f, "charge"), a.spendChargeCommand(f, "authorize"), a.spendChargeCommand(f, "record"),
		a.spendChargeCommand(f, "credit"), a.spendChargeCommand(f, "upto"), a.spendChargeCommand(f, "able"),
		a.spendIncreaseCommand(f),
		a.spendPruneCommand(f), a.spendVerifyCommand(f),
		a.spendCaptureCommand(f), a.spendDecreaseCommand(f), a.spendExtendCommand(f), a.spendVoidCommand(f), a.spendCancelCommand(f),
		a.spendRefundCommand(f), a.spendReverseCommand(f), a.spendLimitsCommand(f), a.spendPlanCommand(f), a.spendFreezeCommand(f, "freeze"), a.spendFreezeCommand(f, "unfreeze"),
		a.spendFreezeCommand(f, "mend"), a.spendMoveCommand(f),
		a.spendRemainingCommand(f), a.spendHoldsCommand(f), a.spendGetCommand(f), a.spendExplainCommand(f), a.spendHistoryCommand(f), a.spendExportCommand(f),
		a.spendRulesCommand(f), a.spendBacktestCommand(f))
	return cmd
}

// withBudget opens the budget that --budget names, calls do and closes the ledger.
func (a *app) withBudget(ctx context.Context, f *spendFlags, do func(*spend.Budgets) error) error {
	if f.budget == "" {
		return usagef(`--budget is missing: the name of a budget in the store; "brim spend rules set FILE" stores one`)
	}
	o := &spend.Options{KeepIDs: f.keepIDs.Std()}
	return a.withLedger(ctx, false, func(l ledger.Ledger) error {
		b, err := spend.Open(ctx, l, f.budget, o)
		if err != nil {
			return err
		}
		return do(b)
	})
}

// withLedger opens the ledger, calls do and closes the ledger.
func (a *app) withLedger(ctx context.Context, create bool, do func(ledger.Ledger) error) (err error) {
	l, err := a.openLedger(ctx, create)
	if err != nil {
		return err
	}
	defer func() {
		if e := l.end(); e != nil && (err == nil || errors.As(err, new(status))) {
			err = e
		}
	}()
	return spendError(do(l))
}

// budgetFile reads the budgets of a file.
func (a *app) budgetFile(ctx context.Context, f *spendFlags, path string) ([]spend.Budget, error) {
	if f.budget != "" {
		return nil, usagef("the file has the names of its budgets; leave out --budget")
	}
	r, err := a.input(ctx, path)
	if err != nil {
		return nil, err
	}
	defer r.close()
	all, err := budgetfile.Read(r)
	if err == nil { // before a store is opened, which may create it
		_, err = spend.New(ctx, memledger.New(nil), all[0], &spend.Options{Budgets: all[1:]})
	}
	if err != nil {
		return nil, dataError{fmt.Errorf("%s: %w", path, err)}
	}
	return all, nil
}

// newest returns the newest rules of a budget.
func newest(ctx context.Context, b *spend.Budgets) (rules spend.Revision, err error) {
	for rules, err = range b.Rules(ctx) {
		break
	}
	return rules, err
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
		spend.ErrBudget, spend.ErrIDReused, spend.ErrUnknownSpend, spend.ErrHoldEnded, spend.ErrHoldExpired, spend.ErrExceeds,
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

func (f *spendFlags) addKeepIDs(cmd *cobra.Command) {
	cmd.Flags().Var(&f.keepIDs, "keep-ids", "how long an ID is remembered, as the programs have it (default: 200d)")
	cmd.Flags().Lookup("keep-ids").DefValue = ""
}
