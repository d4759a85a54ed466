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

// spendFlags are the flags of all commands of brim spend.
type spendFlags struct {
	budget string
	id     string
}

func (a *app) spendCommand() *cobra.Command {
	f := &spendFlags{}
	cmd := newCommand("spend")
	cmd.Args, cmd.RunE = cobra.ArbitraryArgs, group
	cmd.PersistentFlags().StringVar(&f.budget, "budget", "", "the YAML file with the budget")
	cmd.AddCommand(
		a.spendChargeCommand(f, "charge"), a.spendChargeCommand(f, "authorize"), a.spendChargeCommand(f, "record"),
		a.spendChargeCommand(f, "credit"), a.spendChargeCommand(f, "upto"), a.spendChargeCommand(f, "able"),
		a.spendIncreaseCommand(f),
		a.spendPruneCommand(f), a.spendForgetCommand(f), a.spendVerifyCommand(f),
		a.spendCaptureCommand(f), a.spendDecreaseCommand(f), a.spendExtendCommand(f), a.spendVoidCommand(f), a.spendCancelCommand(f),
		a.spendRefundCommand(f), a.spendReverseCommand(f), a.spendLimitsCommand(f), a.spendPlanCommand(f), a.spendFreezeCommand(f, "freeze"), a.spendFreezeCommand(f, "unfreeze"),
		a.spendFreezeCommand(f, "mend"), a.spendMoveCommand(f),
		a.spendRemainingCommand(f), a.spendHoldsCommand(f), a.spendGetCommand(f), a.spendHistoryCommand(f), a.spendExportCommand(f),
		a.spendRulesCommand(f))
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
		_, err = spend.New(ctx, memledger.New(nil), file.Budget, &file.Options)
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
	b, err := spend.New(ctx, l.Ledger, file.Budget, &file.Options)
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
		spend.ErrBudget, spend.ErrIDReused, spend.ErrUnknownSpend, spend.ErrHoldEnded, spend.ErrHoldExpired, spend.ErrNotHeld, spend.ErrNotCaptured, spend.ErrNotRefunded,
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
