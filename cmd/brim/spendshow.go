package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/brimgo/brim/cmd/brim/internal/budgetfile"
	"github.com/brimgo/brim/internal/table"
	"github.com/brimgo/brim/spend"
)

func (a *app) spendRemainingCommand(f *spendFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "remaining ACCOUNT --budget FILE",
		Short: "Show the remaining amount of each rule",
		Long: `Shows the used, held and remaining amount of each rule, and when the remaining amount grows if
nothing is spent. Writes nothing.

Exit status: 0.`,
		Example: `  brim spend remaining card:7 --budget cards.yaml`,
		Args:    exactArgs("ACCOUNT"),
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.withBudget(cmd.Context(), f, empty, func(b *spend.Budgets, _ *budgetfile.File) error {
			list, err := b.Remaining(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if a.json {
				for _, u := range list {
					if err := a.printJSON(u); err != nil {
						return err
					}
				}
				return nil
			}
			t := table.New(table.Right("REMAINING"), table.Right("USED"), table.Right("HELD"), table.Right("LIMIT"),
				table.Right("GROWS AT"), table.Left("RULE"))
			for _, u := range list {
				grows := "-"
				if !u.GrowsAt.IsZero() {
					grows = clockTime(u.GrowsAt, a.now())
				}
				t.Add(u.Remaining.Decimal(), u.Used.Decimal(), u.Held.Decimal(), u.Limit.String(), grows,
					printable(u.Rule))
			}
			return a.printTables(t)
		})
	}
	return cmd
}

func (a *app) spendHistoryCommand(f *spendFlags) *cobra.Command {
	limit := 20
	cmd := &cobra.Command{
		Use:   "history ACCOUNT --budget FILE",
		Short: "Show an account's ledger, newest first",
		Long: `Shows the entries of ACCOUNT, newest first, with their times, amounts and the rules that declined
them.

Exit status: 0.`,
		Example: `  brim spend history card:7 --budget cards.yaml --limit 50`,
		Args:    exactArgs("ACCOUNT"),
	}
	cmd.Flags().IntVar(&limit, "limit", limit, "most entries to show; 0 shows all")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if limit < 0 {
			return usagef("--limit is %d; it must be 0 or more", limit)
		}
		return a.withBudget(cmd.Context(), f, empty, func(b *spend.Budgets, _ *budgetfile.File) error {
			t := table.New(make([]table.Column, 8)...)
			for e, err := range b.History(cmd.Context(), args[0], &spend.HistoryOptions{Limit: limit}) {
				if err != nil {
					return err
				}
				if a.json {
					if err := a.printJSON(e); err != nil {
						return err
					}
					continue
				}
				note := ""
				if len(e.Refused) > 0 {
					note = "by " + strings.Join(e.Refused, ", ")
				}
				if !e.Dated.Equal(e.At) {
					note = "dated " + e.Dated.Format(time.RFC3339)
				}
				t.Add(fmt.Sprint(e.Seq), e.At.Format(time.RFC3339), fmt.Sprint(e.Kind), e.Amount.String(),
					"used "+e.Used.Decimal(), "held "+e.Held.Decimal(), printable(e.RequestID), note)
			}
			return a.printTables(t)
		})
	}
	return cmd
}
