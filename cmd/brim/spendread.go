package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/brimgo/brim/internal/spendreport"
	"github.com/brimgo/brim/internal/table"
	"github.com/brimgo/brim/spend"
)

func (a *app) spendRemainingCommand(f *spendFlags) *cobra.Command {
	cmd := newCommand("spend/remaining")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.withBudget(cmd.Context(), f, func(b *spend.Budgets) error {
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
	rows := 20
	cmd := newCommand("spend/history")
	cmd.Flags().IntVar(&rows, "rows", rows, "most entries to show; 0 shows all")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if rows < 0 {
			return usagef("--rows is %d; it must be positive, or 0 for all", rows)
		}
		return a.withBudget(cmd.Context(), f, func(b *spend.Budgets) error {
			t := table.New(make([]table.Column, 8)...)
			for e, err := range b.History(cmd.Context(), args[0], &spend.HistoryOptions{Limit: rows}) {
				if err != nil {
					return err
				}
				if a.json {
					if err := a.printEntry(e); err != nil {
						return err
					}
					continue
				}
				note := ""
				if e.Asked.Minor > 0 {
					note = "of " + e.Asked.Decimal() + " that were asked"
				}
				if len(e.Refused) > 0 {
					note = "by " + strings.Join(e.Refused, ", ")
				}
				if len(e.Shadow) > 0 {
					note = strings.TrimPrefix(note+"; in the shadow, by "+strings.Join(e.Shadow, ", "), "; ")
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
	cmd := newCommand("spend/export")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return a.withBudget(cmd.Context(), f, func(b *spend.Budgets) error {
			for e, err := range b.Export(cmd.Context(), spend.Entry{}) {
				if err == nil {
					err = a.printEntry(e)
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

// printEntry prints an entry as JSON.
func (a *app) printEntry(e spend.Entry) error { return a.printJSON(spendreport.NewEntry(e)) }

// creditedText describes the parts of a credit that rules have counted, in the order of the rules'
// names.
func creditedText(parts map[string]spend.Money) string {
	var list []string
	for _, rule := range slices.Sorted(maps.Keys(parts)) {
		list = append(list, rule+" "+parts[rule].Decimal())
	}
	return strings.Join(list, ", ")
}
