package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/brimgo/brim/cmd/brim/internal/budgetfile"
	"github.com/brimgo/brim/spend"
)

func (a *app) spendPruneCommand(f *spendFlags) *cobra.Command {
	cmd := newCommand("spend/prune")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		var done spend.PruneResult
		err := a.eachBudget(cmd.Context(), f, func(b *spend.Budgets) error {
			one, err := b.Prune(cmd.Context())
			done.Expired, done.Requests = done.Expired+one.Expired, done.Requests+one.Requests
			return err
		})
		if err != nil {
			return err
		}
		return a.print(map[string]int64{"expired_holds": done.Expired, "ids": done.Requests},
			fmt.Sprintf("pruned: %d expired holds, %d IDs", done.Expired, done.Requests))
	}
	return cmd
}

func (a *app) spendForgetCommand(f *spendFlags) *cobra.Command {
	var reason string
	cmd := newCommand("spend/forget-rule")
	cmd.Flags().StringVar(&reason, "reason", "", "why; the ledger keeps it")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if reason == "" {
			return usagef("--reason is missing; it tells why the rule is forgotten")
		}
		accounts := int64(0)
		err := a.eachBudget(cmd.Context(), f, func(b *spend.Budgets) error {
			n, err := b.ForgetRule(cmd.Context(), args[0], reason)
			accounts += n
			return err
		})
		if err != nil {
			return err
		}
		return a.print(map[string]int64{"accounts": accounts}, fmt.Sprintf("forgotten in %d accounts", accounts))
	}
	return cmd
}

func (a *app) spendVerifyCommand(f *spendFlags) *cobra.Command {
	cmd := newCommand("spend/verify")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		accounts := 0
		err := a.eachBudget(cmd.Context(), f, func(b *spend.Budgets) error {
			n, err := b.VerifyAll(cmd.Context())
			accounts += n
			return err
		})
		if err != nil {
			return err
		}
		return a.print(map[string]int{"accounts": accounts}, fmt.Sprintf("sound: %d accounts", accounts))
	}
	return cmd
}

// eachBudget calls do with the Budgets of the budget file, and with those under "also".
func (a *app) eachBudget(ctx context.Context, f *spendFlags, do func(*spend.Budgets) error) error {
	return a.withBudget(ctx, f, false, func(b *spend.Budgets, file *budgetfile.File) error {
		for _, budget := range append([]spend.Budget{file.Budget}, file.Options.Budgets...) {
			one, err := b.ForBudget(budget.Name)
			if err == nil {
				err = do(one)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}
