package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/brimgo/brim/cmd/brim/internal/cards"
	"github.com/brimgo/brim/cmd/brim/internal/simulate"
	"github.com/brimgo/brim/internal/table"
	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/memledger"
)

func (a *app) spendReplayCommand(f *spendFlags) *cobra.Command {
	top := 10
	cmd := newCommand("spend/replay")
	cmd.Flags().IntVar(&top, "top", top, "number of the most declined accounts to show")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if top < 0 {
			return usagef("--top is %d; it must be 0 or more", top)
		}
		if cmd.Flags().Changed("store") {
			return usagef("replay decides in memory; leave --store out")
		}
		return a.spendReplay(cmd.Context(), f, args[0], top)
	}
	return cmd
}

// spendReplay runs the log through a budget, and prints the report.
func (a *app) spendReplay(ctx context.Context, f *spendFlags, path string, top int) error {
	file, err := a.budget(ctx, f)
	if err != nil {
		return err
	}
	in, err := a.input(ctx, path)
	if err != nil {
		return err
	}
	defer in.close()
	clock := new(simulate.Clock)
	l := memledger.New(&memledger.Options{Clock: clock.Now})
	b, err := spend.New(l, file.Budget, &file.Options)
	if err != nil {
		return err
	}
	r, err := cards.NewReader(in)
	var rep *cards.Report
	if err == nil {
		rep, err = cards.Replay(ctx, r, b, clock, top)
	}
	if errors.Is(err, cards.ErrFormat) {
		err = dataError{fmt.Errorf("%s: %w", in.name, err)}
	}
	if err != nil && (rep == nil || rep.Events == 0 || !errors.As(err, new(signalError))) {
		return err
	}
	for _, bad := range rep.Bad {
		fmt.Fprintf(a.stderr, "brim: %s: %s\n", in.name, bad)
	}
	if a.json {
		return cmp.Or(a.printJSON(rep), err)
	}
	return cmp.Or(a.describeSpendReplay(rep), err)
}

// describeSpendReplay prints a report as tables.
func (a *app) describeSpendReplay(rep *cards.Report) error {
	t := table.New(table.Right(""), table.Left(""))
	t.Add(fmt.Sprint(rep.Events),
		fmt.Sprintf("events on %d accounts, all of them proven against their entries", rep.Accounts))
	t.Add(fmt.Sprint(rep.Approved), "approved")
	t.Add(fmt.Sprint(rep.Declined), "declined")
	t.Add(fmt.Sprint(rep.Replayed), "sent again, and answered as before")
	t.Add(fmt.Sprint(rep.Unparsed), "lines that are not events")
	t.Add(rep.Spent.Decimal(), rep.Spent.Currency+" spent")
	for _, rule := range slices.Sorted(maps.Keys(rep.ByRule)) {
		t.Add(fmt.Sprint(rep.ByRule[rule]), "declined by "+printable(rule))
	}
	for _, reason := range slices.Sorted(maps.Keys(rep.Failed)) {
		t.Add(fmt.Sprint(rep.Failed[reason]), "failed: "+reason)
	}
	top := table.New(table.Right("DECLINED"), table.Right("APPROVED"), table.Left("ACCOUNT"))
	for _, account := range rep.Top {
		top.Add(fmt.Sprint(account.Declined), fmt.Sprint(account.Approved), printable(account.Account))
	}
	return a.printTables(t, top)
}
