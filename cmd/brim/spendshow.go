package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/brimgo/brim/cmd/brim/internal/budgetfile"
	"github.com/brimgo/brim/internal/table"
	"github.com/brimgo/brim/spend"
)

func (a *app) spendRulesCommand(f *spendFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "rules --budget FILE",
		Short: "Check a budget file and print its rules as JSON",
		Long: `Prints the budget, and those under "also", each as one object of JSON: the form that programs read with
UnmarshalJSON of spend.Budget, and in which equal budgets are equal texts. Opens no store.

Exit status: 0; 65 if the file has a mistake.`,
		Example: `  brim spend rules --budget cards.yaml`,
		Args:    exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			file, err := a.budget(cmd.Context(), f)
			if err != nil {
				return err
			}
			for _, b := range append([]spend.Budget{file.Budget}, file.Options.Budgets...) {
				if err := a.printJSON(b); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

func (a *app) spendRemainingCommand(f *spendFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "remaining ACCOUNT --budget FILE",
		Short: "Show the remaining amount of each rule",
		Long: `Shows the used, held and remaining amount of each rule, and when the remaining amount grows if
nothing is spent. Of a rule with per, it shows each value that has used or held something. Writes
nothing.

Exit status: 0.`,
		Example: `  brim spend remaining card:7 --budget cards.yaml`,
		Args:    exactArgs("ACCOUNT"),
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.withBudget(cmd.Context(), f, false, func(b *spend.Budgets, _ *budgetfile.File) error {
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
					ruleText(u))
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
them. With --json, each entry is a line.

Exit status: 0.`,
		Example: `  brim spend history card:7 --budget cards.yaml`,
		Args:    exactArgs("ACCOUNT"),
	}
	cmd.Flags().IntVar(&limit, "limit", limit, "most entries to show; 0 shows all")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if limit < 0 {
			return usagef("--limit is %d; it must be 0 or more", limit)
		}
		return a.withBudget(cmd.Context(), f, false, func(b *spend.Budgets, _ *budgetfile.File) error {
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
				if len(e.Credited) > 0 {
					note = "counted by " + creditedText(e.Credited)
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

func (a *app) spendExportCommand(f *spendFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "export --budget FILE",
		Short: "Write the whole ledger as lines of JSON",
		Long: `Writes every entry of every account of the budget, and of those under "also", as lines of JSON like
those of brim spend history --json. Accounts are in byte order, and the entries of an account newest
first. Entries that are added meanwhile may be missing. Writes nothing to the ledger.

Exit status: 0; another means that lines are missing.`,
		Example: `  brim spend export --budget cards.yaml > ledger.ndjson`,
		Args:    exactArgs(),
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return a.eachBudget(cmd.Context(), f, func(b *spend.Budgets) error {
			for e, err := range b.Export(cmd.Context(), nil) {
				if err == nil {
					err = a.printJSON(e)
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	return cmd
}

// creditedText describes the parts of a credit that rules have counted, in the order of the rules'
// names.
func creditedText(parts map[string]spend.Money) string {
	var list []string
	for _, rule := range slices.Sorted(maps.Keys(parts)) {
		list = append(list, rule+" "+parts[rule].Decimal())
	}
	return strings.Join(list, ", ")
}
