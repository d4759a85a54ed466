package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/brimgo/brim/spend"
)

func (a *app) spendPruneCommand(f *spendFlags) *cobra.Command {
	cmd := newCommand("spend/prune")
	f.addKeepIDs(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return a.withBudget(cmd.Context(), f, func(b *spend.Budgets) error {
			done, err := b.Prune(cmd.Context())
			if err != nil {
				return err
			}
			return a.print(map[string]int64{"expired_holds": done.Expired, "ids": done.Requests},
				fmt.Sprintf("pruned: %s, %s", count(done.Expired, "expired hold"), count(done.Requests, "ID")))
		})
	}
	return cmd
}

func (a *app) spendVerifyCommand(f *spendFlags) *cobra.Command {
	cmd := newCommand("spend/verify")
	f.addKeepIDs(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return a.withBudget(cmd.Context(), f, func(b *spend.Budgets) error {
			accounts, err := b.VerifyAll(cmd.Context())
			if err != nil {
				return err
			}
			return a.print(map[string]int{"accounts": accounts}, "sound: "+count(accounts, "account"))
		})
	}
	return cmd
}
