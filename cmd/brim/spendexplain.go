package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/brimgo/brim/internal/spendreport"
	"github.com/brimgo/brim/internal/table"
	"github.com/brimgo/brim/spend"
)

func (a *app) spendExplainCommand(f *spendFlags) *cobra.Command {
	cmd := newCommand("spend/explain")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.withBudget(cmd.Context(), f, func(b *spend.Budgets) error {
			x, err := b.Explain(cmd.Context(), args[0])
			switch {
			case err != nil:
				return err
			case a.json:
				return a.printJSON(spendreport.NewExplanation(x))
			}
			return a.describeExplanation(&x)
		})
	}
	return cmd
}

// describeExplanation prints the answer, and each rule with the spends that it had counted.
func (a *app) describeExplanation(x *spend.Explanation) error {
	if err := a.describeSpend(x.ID, x.Decision, "approved"); err != nil {
		return err
	}
	fmt.Fprintf(a.stdout, "at %s, by revision %d of the rules:\n", x.Decision.At.Format(time.RFC3339), x.Revision)
	for i := range x.Rules {
		if err := a.describeRuleHistory(&x.Rules[i]); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) describeRuleHistory(r *spend.RuleHistory) error {
	name := printable(r.Budget) + "/" + printable(r.Name) + " " + printable(r.Rule)
	if r.Value != "" {
		name += " " + printable(r.Value)
	}
	verdict := ""
	switch {
	case r.Refused && r.Shadow:
		verdict = ": would have refused, in the shadow"
	case r.Refused:
		verdict = ": refused"
	}
	fmt.Fprintf(a.stdout, "%s: %s of %s used, %s held%s\n", name, r.Used.Decimal(), r.Limit, r.Held.Decimal(), verdict)
	t := table.New(make([]table.Column, 4)...)
	for _, c := range r.Counted {
		t.Add("  "+c.Dated.Format(time.RFC3339), "used "+c.Used.Decimal(), "held "+c.Held.Decimal(), printable(c.ID))
	}
	if err := a.printTables(t); err != nil {
		return err
	}
	if r.Omitted > 0 {
		fmt.Fprintf(a.stdout, "  older ones: %d\n", r.Omitted)
	}
	if r.Incomplete != "" {
		fmt.Fprintf(a.stdout, "  may be incomplete: %s\n", r.Incomplete)
	}
	return nil
}
