package main

import (
	"cmp"
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/brimgo/brim/internal/duration"
	"github.com/brimgo/brim/internal/table"
	"github.com/brimgo/brim/spend"
)

func (a *app) spendDecreaseCommand(f *spendFlags) *cobra.Command {
	cmd := newCommand("spend/decrease")
	f.addID(cmd)
	cmd.RunE = a.followUp(f, "decreased", func(ctx context.Context, b *spend.Budgets, r followUp) (spend.Decision, error) {
		return b.Decrease(ctx, spend.DecreaseRequest{ID: r.id, HoldID: r.earlier, Amount: r.amount})
	})
	return cmd
}

func (a *app) spendIncreaseCommand(f *spendFlags) *cobra.Command {
	var least string
	cmd := newCommand("spend/increase")
	f.addID(cmd)
	cmd.Flags().StringVar(&least, "least", "", "hold as much of AMOUNT as fits, if that is this much or more")
	cmd.RunE = a.followUp(f, "increased", func(ctx context.Context, b *spend.Budgets, r followUp) (_ spend.Decision, err error) {
		q := spend.IncreaseRequest{ID: r.id, HoldID: r.earlier, Amount: r.amount}
		if least != "" {
			if q.Least, err = spend.ParseMoney(least, r.amount.Currency); err != nil {
				return spend.Decision{}, err
			}
		}
		return b.Increase(ctx, q)
	})
	return cmd
}

func (a *app) spendExtendCommand(f *spendFlags) *cobra.Command {
	var ttl duration.Value
	var fate expiryFlag
	cmd := newCommand("spend/extend")
	f.addID(cmd)
	cmd.Flags().Var(&ttl, "ttl", "how long the hold lasts from now on, like 90s, 24h or 7d (default: 7d)")
	cmd.Flags().Lookup("ttl").DefValue = ""
	fate.add(cmd)
	cmd.RunE = a.followUp(f, "extended", func(ctx context.Context, b *spend.Budgets, r followUp) (spend.Decision, error) {
		return b.Extend(ctx, spend.ExtendRequest{ID: r.id, HoldID: r.earlier, TTL: ttl.Std(), OnExpiry: fate.Expiry})
	})
	return cmd
}

// spendFreezeCommand returns the command freeze, unfreeze or mend.
func (a *app) spendFreezeCommand(f *spendFlags, kind string) *cobra.Command {
	var reason string
	cmd := newCommand("spend/" + kind)
	f.addID(cmd)
	cmd.Flags().StringVar(&reason, "reason", "", "why; the ledger keeps it, and declines tell the reason of a freeze")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if kind != "unfreeze" && reason == "" {
			return usagef("--reason is missing; the ledger keeps it")
		}
		return a.withBudget(cmd.Context(), f, func(b *spend.Budgets) error {
			call, done := b.Freeze, "frozen"
			switch kind {
			case "mend":
				call, done = b.Mend, "mended"
			case "unfreeze":
				call, done = b.Unfreeze, "unfrozen"
			}
			r := spend.FreezeRequest{ID: f.requestID(), Account: args[0], Reason: reason}
			d, err := call(cmd.Context(), r)
			if err != nil {
				return err
			}
			return a.answerSpend(r.ID, d, done)
		})
	}
	return cmd
}

func (a *app) spendMoveCommand(f *spendFlags) *cobra.Command {
	var reason string
	cmd := newCommand("spend/move")
	f.addID(cmd)
	cmd.Flags().StringVar(&reason, "reason", "", "why; the ledger keeps it")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if reason == "" {
			return usagef("--reason is missing; the ledger keeps it")
		}
		return a.withBudget(cmd.Context(), f, func(b *spend.Budgets) error {
			r := spend.MoveRequest{ID: f.requestID(), Account: args[0], To: args[1], Reason: reason}
			d, err := b.MoveAccount(cmd.Context(), r)
			if err != nil {
				return err
			}
			return a.answerSpend(r.ID, d, "moved")
		})
	}
	return cmd
}

func (a *app) spendLimitsCommand(f *spendFlags) *cobra.Command {
	var until string
	cmd := newCommand("spend/limits")
	cmd.Args = func(_ *cobra.Command, args []string) error {
		if len(args) == 0 {
			return usagef("ACCOUNT is missing")
		}
		return nil
	}
	f.addID(cmd)
	cmd.Flags().StringVar(&until, "until", "", "the end of the limits, like 2026-12-04T18:00:00Z (default: no end)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var end time.Time
		if until != "" {
			var err error
			if end, err = time.Parse(time.RFC3339, until); err != nil {
				return usagef("--until is %.40q; write it like 2026-12-04T18:00:00Z", until)
			}
		}
		if len(args) == 1 {
			if until != "" {
				return usagef("--until ends a limit, and no RULE=AMOUNT is given")
			}
			return a.withBudget(cmd.Context(), f, func(b *spend.Budgets) error {
				return a.printLimits(cmd.Context(), b, args[0])
			})
		}
		return a.withBudget(cmd.Context(), f, func(b *spend.Budgets) error {
			r := spend.LimitsRequest{ID: f.requestID(), Account: args[0]}
			for _, s := range args[1:] {
				l, err := parseLimit(s, b.Currency(), end)
				if err != nil {
					return err
				}
				r.Limits = append(r.Limits, l)
			}
			d, err := b.SetLimits(cmd.Context(), r)
			if err != nil {
				return err
			}
			return a.answerSpend(r.ID, d, "set")
		})
	}
	return cmd
}

// parseLimit reads RULE=AMOUNT, RULE=NUMBERx for a rule that counts spends, or RULE=default. An
// amount with a sign is added.
func parseLimit(s, currency string, until time.Time) (l spend.RuleLimit, err error) {
	i := strings.LastIndexByte(s, '=')
	if i < 1 {
		return l, usagef("%.60q is no limit; write it like day=500.00, bursts=3x or day=default", s)
	}
	l.Rule = s[:i]
	amount := s[i+1:]
	if amount == "default" {
		l.Default = true
		return l, nil
	}
	l.Until, l.Add = until, strings.HasPrefix(amount, "+") || strings.HasPrefix(amount, "-")
	amount = strings.TrimPrefix(amount, "+")
	if times, ok := strings.CutSuffix(amount, "x"); ok {
		l.Amount.Minor, err = strconv.ParseInt(times, 10, 64)
		if err != nil {
			return l, usagef("%.60q is no limit; a number of spends is written like bursts=3x", s)
		}
		return l, nil
	}
	l.Amount, err = spend.ParseMoney(amount, currency)
	return l, err
}

func (a *app) spendPlanCommand(f *spendFlags) *cobra.Command {
	var none bool
	cmd := newCommand("spend/plan")
	cmd.Args = func(_ *cobra.Command, args []string) error {
		switch {
		case len(args) == 0:
			return usagef("ACCOUNT is missing")
		case none && len(args) > 1:
			return usagef("give either PLAN or --none")
		}
		return mostArgs(2)(nil, args)
	}
	f.addID(cmd)
	cmd.Flags().BoolVar(&none, "none", false, "the account has the rules of the budget again")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		set := none || len(args) > 1
		return a.withBudget(cmd.Context(), f, func(b *spend.Budgets) error {
			if !set {
				plan, err := b.Plan(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				return a.print(map[string]string{"plan": plan}, "plan: "+printable(cmp.Or(plan, "none")))
			}
			r := spend.PlanRequest{ID: f.requestID(), Account: args[0]}
			if !none {
				r.Plan = args[1]
			}
			d, err := b.SetPlan(cmd.Context(), r)
			if err != nil {
				return err
			}
			return a.answerSpend(r.ID, d, "set")
		})
	}
	return cmd
}

// printLimits prints the account's own limits.
func (a *app) printLimits(ctx context.Context, b *spend.Budgets, account string) error {
	list, err := b.Limits(ctx, account)
	if err != nil {
		return err
	}
	t := table.New(table.Right("LIMIT"), table.Right("UNTIL"), table.Left("RULE"))
	for _, l := range list {
		if a.json {
			if err := a.printJSON(l); err != nil {
				return err
			}
			continue
		}
		end := "-"
		if !l.Until.IsZero() {
			end = l.Until.Format(time.RFC3339)
		}
		t.Add(l.Amount.String(), end, printable(l.Rule))
	}
	return a.printTables(t)
}

func (a *app) spendHoldsCommand(f *spendFlags) *cobra.Command {
	cmd := newCommand("spend/holds")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.withBudget(cmd.Context(), f, func(b *spend.Budgets) error {
			t := table.New(table.Right("HELD"), table.Right("CAPTURED"), table.Right("EXPIRES AT"), table.Left("ID"))
			for h, err := range b.Holds(cmd.Context(), args[0]) {
				if err != nil {
					return err
				}
				if a.json {
					if err := a.printJSON(h); err != nil {
						return err
					}
					continue
				}
				t.Add(h.Held.String(), h.Captured.Decimal(), clockTime(h.ExpiresAt, a.now()), printable(h.ID))
			}
			return a.printTables(t)
		})
	}
	return cmd
}

func (a *app) spendGetCommand(f *spendFlags) *cobra.Command {
	cmd := newCommand("spend/get")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.withBudget(cmd.Context(), f, func(b *spend.Budgets) error {
			x, err := b.Get(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if a.json && x.Spend != nil {
				if err := a.printJSON(x.Spend); err != nil {
					return err
				}
			}
			if !a.json && x.Spend != nil {
				t := table.New(table.Left("STATE"), table.Right("TOTAL"), table.Right("HELD"), table.Right("CAPTURED"), table.Right("REFUNDED"))
				t.Add(x.Spend.State, x.Spend.Total.String(), x.Spend.Held.Decimal(), x.Spend.Captured.Decimal(), x.Spend.Refunded.Decimal())
				if err := a.printTables(t); err != nil {
					return err
				}
			}
			return a.answerSpend(x.ID, x.Decision, "approved")
		})
	}
	return cmd
}
