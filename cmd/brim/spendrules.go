package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/brimgo/brim/internal/table"
	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/ledger"
)

func (a *app) spendRulesCommand(f *spendFlags) *cobra.Command {
	cmd := newCommand("spend/rules")
	cmd.Args, cmd.RunE = cobra.ArbitraryArgs, group
	cmd.AddCommand(a.rulesSetCommand(f), a.rulesReleaseCommand(f), a.rulesShowCommand(f), a.rulesHistoryCommand(f),
		a.rulesDiffCommand(f), a.rulesCheckCommand(f))
	return cmd
}

// setFlags are the flags of commands that store a revision.
type setFlags struct{ by, reason string }

func (s *setFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&s.by, "author", "brim", "who sets the rules; the ledger keeps it")
	cmd.Flags().StringVar(&s.reason, "reason", "", "why; the ledger keeps it")
}

// setJSON is the form in which --json prints the outcome of set and of release.
type setJSON struct {
	Budget   string `json:"budget"`
	Revision int64  `json:"revision"`
	Held     bool   `json:"held"`
	Changed  bool   `json:"changed"`
}

// printSet prints an outcome. done is the word for a changed one, and left for another.
func (a *app) printSet(s setJSON, done, left string) error {
	if !s.Changed {
		done = left
	}
	return a.print(s, fmt.Sprintf("%s: %s revision %d%s", done, printable(s.Budget), s.Revision, unless(!s.Held, ", held")))
}

func (a *app) rulesSetCommand(f *spendFlags) *cobra.Command {
	var s setFlags
	var release bool
	cmd := newCommand("spend/rules/set")
	s.add(cmd)
	cmd.Flags().BoolVar(&release, "release", false, "let programs that start with a higher revision store it")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		budgets, err := a.budgetFile(cmd.Context(), f, args[0])
		if err != nil {
			return err
		}
		return a.withLedger(cmd.Context(), true, func(l ledger.Ledger) error {
			o := &spend.SetRulesOptions{By: s.by, Reason: s.reason, Hold: !release, Release: release, WarmUp: true}
			for _, budget := range budgets {
				done, err := setRules(cmd.Context(), l, budget, o)
				if err == nil {
					err = a.printSet(done, "set", "unchanged")
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

// setRules stores the rules of a budget, unless the ledger has them. Rules without a revision get
// the next one.
func setRules(ctx context.Context, l ledger.Ledger, budget spend.Budget, o *spend.SetRulesOptions) (setJSON, error) {
	b, err := spend.Open(ctx, l, budget.Name, nil)
	created := errors.Is(err, spend.ErrRequest) // the ledger does not know the name
	if created {
		first := budget
		first.Revision = 0
		b, err = spend.New(ctx, l, first, nil)
	}
	if err != nil {
		return setJSON{}, err
	}
	old, err := newest(ctx, b)
	if err != nil {
		return setJSON{}, err
	}
	if budget.Revision == 0 {
		budget.Revision = old.Rules.Revision
		differs, err := differ(old.Rules, budget)
		if err != nil {
			return setJSON{}, err
		}
		if created || differs || old.Held != o.Hold {
			budget.Revision++
		}
	}
	out := setJSON{Budget: budget.Name, Revision: budget.Revision, Held: old.Held, Changed: budget.Revision != old.Rules.Revision}
	if out.Changed {
		out.Held = o.Hold
	}
	return out, b.SetRules(ctx, budget, o)
}

func (a *app) rulesReleaseCommand(f *spendFlags) *cobra.Command {
	var s setFlags
	cmd := newCommand("spend/rules/release")
	s.add(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return a.withBudget(cmd.Context(), f, func(b *spend.Budgets) error {
			rules, err := newest(cmd.Context(), b)
			if err != nil {
				return err
			}
			out := setJSON{Budget: rules.Rules.Name, Revision: rules.Rules.Revision, Changed: rules.Held}
			if rules.Held {
				rules.Rules.Revision++
				out.Revision++
				err = b.SetRules(cmd.Context(), rules.Rules, &spend.SetRulesOptions{By: s.by, Reason: s.reason, Release: true})
			}
			if err != nil {
				return err
			}
			return a.printSet(out, "released", "not held")
		})
	}
	return cmd
}

// revisionJSON is the form in which --json prints a revision.
type revisionJSON struct {
	Budget   string       `json:"budget"`
	Revision int64        `json:"revision"`
	At       time.Time    `json:"at"`
	By       string       `json:"by"`
	Reason   string       `json:"reason,omitempty"`
	Held     bool         `json:"held"`
	Rules    spend.Budget `json:"rules"`
}

func (a *app) printRevision(r spend.Revision) error {
	return a.printJSON(revisionJSON{r.Rules.Name, r.Rules.Revision, r.At, r.By, r.Reason, r.Held, r.Rules})
}

func (a *app) rulesShowCommand(f *spendFlags) *cobra.Command {
	var revision int64
	cmd := newCommand("spend/rules/show")
	cmd.Flags().Int64Var(&revision, "revision", 0, "the number of a revision (default: the newest)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return a.withBudget(cmd.Context(), f, func(b *spend.Budgets) error {
			for r, err := range b.Rules(cmd.Context()) {
				if err != nil {
					return err
				}
				if cmd.Flags().Changed("revision") && r.Rules.Revision != revision {
					continue
				}
				if a.json {
					return a.printRevision(r)
				}
				lines, err := linesOf(r.Rules, true)
				if err != nil {
					return err
				}
				fmt.Fprintf(a.stdout, "# %s, by %s%s%s\n", r.At.Format(time.RFC3339), printable(r.By), unless(!r.Held, ", held"),
					unless(r.Reason == "", ": "+printable(r.Reason)))
				_, err = fmt.Fprintln(a.stdout, strings.Join(lines, "\n"))
				return err
			}
			return dataError{fmt.Errorf("budget %q has no revision %d", f.budget, revision)}
		})
	}
	return cmd
}

func (a *app) rulesHistoryCommand(f *spendFlags) *cobra.Command {
	cmd := newCommand("spend/rules/history")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return a.withBudget(cmd.Context(), f, func(b *spend.Budgets) error {
			t := table.New(table.Right("REVISION"), table.Left("AT"), table.Left("HELD"), table.Left("BY"), table.Left("REASON"))
			for r, err := range b.Rules(cmd.Context()) {
				if err != nil {
					return err
				}
				if a.json {
					if err := a.printRevision(r); err != nil {
						return err
					}
					continue
				}
				t.Add(strconv.FormatInt(r.Rules.Revision, 10), r.At.Format(time.RFC3339), unless(!r.Held, "held"), printable(r.By), printable(r.Reason))
			}
			return a.printTables(t)
		})
	}
	return cmd
}

// diffJSON is the form in which --json prints a difference.
type diffJSON struct {
	Budget   string   `json:"budget"`
	Revision int64    `json:"revision"` // in the ledger
	Removed  []string `json:"removed"`
	Added    []string `json:"added"`
}

func (a *app) rulesDiffCommand(f *spendFlags) *cobra.Command {
	cmd := newCommand("spend/rules/diff")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		budgets, err := a.budgetFile(cmd.Context(), f, args[0])
		if err != nil {
			return err
		}
		return a.withLedger(cmd.Context(), false, func(l ledger.Ledger) error {
			answer := error(nil)
			for _, budget := range budgets {
				b, err := spend.Open(cmd.Context(), l, budget.Name, nil)
				if err != nil {
					return err
				}
				old, err := newest(cmd.Context(), b)
				if err != nil {
					return err
				}
				differs, err := a.printDiff(old, budget, args[0])
				if err != nil {
					return err
				}
				if differs {
					answer = status(exitBroken)
				}
			}
			return answer
		})
	}
	return cmd
}

// printDiff prints the difference between the newest rules and those of a file, and reports whether
// there is one. A file without a revision has that of the newest rules.
func (a *app) printDiff(old spend.Revision, budget spend.Budget, path string) (differs bool, err error) {
	was, err := linesOf(old.Rules, budget.Revision != 0)
	if err != nil {
		return false, err
	}
	is, err := linesOf(budget, budget.Revision != 0)
	if err != nil {
		return false, err
	}
	out := diffJSON{Budget: old.Rules.Name, Revision: old.Rules.Revision, Removed: []string{}, Added: []string{}}
	lines := diff(was, is)
	for _, line := range lines {
		switch line[0] {
		case '-':
			out.Removed = append(out.Removed, line[2:])
		case '+':
			out.Added = append(out.Added, line[2:])
		}
	}
	differs = len(out.Removed)+len(out.Added) > 0
	switch {
	case a.json:
		err = a.printJSON(out)
	case differs:
		_, err = fmt.Fprintf(a.stdout, "--- %s revision %d\n+++ %s\n%s\n", printable(old.Rules.Name), old.Rules.Revision, printable(path), strings.Join(lines, "\n"))
	}
	return differs, err
}

func (a *app) rulesCheckCommand(f *spendFlags) *cobra.Command {
	cmd := newCommand("spend/rules/check")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		budgets, err := a.budgetFile(cmd.Context(), f, args[0])
		if err != nil {
			return err
		}
		for _, b := range budgets {
			if err := a.printJSON(b); err != nil {
				return err
			}
		}
		return nil
	}
	return cmd
}
