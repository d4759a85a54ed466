package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/brimgo/brim/cmd/brim/internal/budgetfile"
	"github.com/brimgo/brim/spend"
)

func (a *app) spendPruneCommand(f *spendFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "prune --budget FILE",
		Short: "End expired holds, and remove old data",
		Long: `Ends the expired holds of accounts that no request has touched since, and removes the entries and
the IDs that are older than keep_ids and that no rule needs. It covers the budget, and those under
"also". Export first what you want to keep.

Exit status: 0; 65 if accounts are damaged, after all others were pruned.`,
		Example: `  brim spend export --budget cards.yaml > ledger.ndjson && brim spend prune --budget cards.yaml`,
		Args:    exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
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
		},
	}
}

func (a *app) spendForgetCommand(f *spendFlags) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use:   "forget-rule RULE --reason TEXT --budget FILE",
		Short: "Forget a rule that no program uses any more",
		Long: `Takes the figures of RULE from all accounts of the budget, and of those under "also". Until then
prune keeps the entries that RULE may need; for a lifetime rule, these are all entries. Each account
that had figures gets an entry with the reason. Take RULE away from every program first.

Exit status: 0; 65 if the budget has RULE, or if accounts are damaged, after all others.`,
		Example: `  brim spend forget-rule month --reason "replaced by week" --budget cards.yaml`,
		Args:    exactArgs("RULE"),
	}
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
	return &cobra.Command{
		Use:   "verify --budget FILE",
		Short: "Prove the figures of all accounts by their entries",
		Long: `Adds up the entries of every account of the budget, and of those under "also", and compares the
sums with the stored figures. Changes nothing. After a prune it proves the figures whose entries are
still there.

Exit status: 0; 65 if an account differs from its entries.`,
		Example: `  brim spend verify --budget cards.yaml`,
		Args:    exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			accounts := 0
			err := a.eachBudget(cmd.Context(), f, func(b *spend.Budgets) error {
				last := ""
				for e, err := range b.Export(cmd.Context(), nil) { // one account after the other
					if err != nil {
						return err
					}
					if e.Name == last {
						continue
					}
					last = e.Name
					if err := b.Verify(cmd.Context(), e.Name); err != nil {
						return fmt.Errorf("account %s: %w", printable(e.Name), err)
					}
					accounts++
				}
				return nil
			})
			if err != nil {
				return err
			}
			return a.print(map[string]int{"accounts": accounts}, fmt.Sprintf("sound: %d accounts", accounts))
		},
	}
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
