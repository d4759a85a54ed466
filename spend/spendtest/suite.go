package spendtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/store"
)

const days = 24 * time.Hour

var ctx = context.Background()

// testCase is a script for a ledger of its own. why is the reason of the rule; a failure prints it.
type testCase struct {
	name, why string
	currency  string // of the budget; "" is EUR
	rules     []spend.Rule
	plans     map[string][]spend.Rule
	others    map[string][]spend.Rule // of other revisions, by name
	steps     []step
}

// fixture is the ledger and the clock of one case.
type fixture struct {
	*testing.T
	h         Harness
	c         *testCase
	clock     *testClock
	l         ledger.Ledger
	b         *spend.Budgets // that decide
	revision  string         // the name of the rules in force
	revisions int64          // number of revisions before
	processes map[string]*spend.Budgets
	ids       int
}

// Run runs every case of the suite on a ledger of its own.
func Run(t *testing.T, h Harness) {
	for _, c := range cases() {
		t.Run(c.name, func(t *testing.T) { c.test(t, h) })
	}
}

// cases returns all cases, each with a name of its own.
func cases() []testCase {
	return slices.Concat(ruleCases(), scaleCases(), ledgerCases(), pruneCases(), badInputCases(), raceCases(), cancelCases(), forcedCases(), expiryCases(), crossedCases(), moveCases(),
		revisionCases(), rulebookCases())
}

// test runs the case on a new ledger.
func (c *testCase) test(t *testing.T, h Harness) {
	clock := &testClock{}
	clock.us.Store(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC).UnixMicro())
	s := &fixture{T: t, h: h, c: c, clock: clock, l: h.New(t, clock.now), processes: make(map[string]*spend.Budgets)}
	defer func() {
		if t.Failed() {
			t.Logf("why: %s", c.why)
		}
		if err := s.l.Close(); err != nil {
			t.Error(err)
		}
	}()
	s.b = s.budget(s.rules())
	s.processes[""] = s.b
	for _, step := range c.steps {
		step.do(s)
	}
}

// rules returns the rules of the present revision.
func (s *fixture) rules() spend.Budget {
	b := spend.Budget{Name: s.c.name, Currency: cmp.Or(s.c.currency, "EUR"), Rules: s.c.rules, Plans: s.c.plans, Revision: s.revisions}
	if s.revision != "" {
		b.Rules = s.c.others[s.revision]
	}
	b.Retired = append(b.Retired, "ever", "each", "leaky", "slow", "travel", "net", "new", "a", "b")
	return b
}

func (s *fixture) budget(b spend.Budget, others ...spend.Budget) *spend.Budgets {
	s.Helper()
	budgets, err := spend.New(ctx, s.l, b, &spend.Options{Budgets: others, KeepIDs: keepIDs})
	if err != nil {
		s.Fatal(err)
	}
	return budgets
}

// named returns the ID that a name in the script stands for, or a new one for "".
func (s *fixture) named(id string) string {
	if id == "" {
		s.ids++
		id = fmt.Sprint(s.ids)
	}
	name := s.Name()
	return name[max(0, len(name)-90):] + "/" + id
}

// shows checks the figures of the named rule, or of the first one.
func (s *fixture) shows(used, held, remaining int64, rule ...string) spend.Usage {
	s.Helper()
	list, err := s.b.Remaining(ctx, "card")
	if err != nil {
		s.Fatal(err)
	}
	for _, u := range list {
		if len(rule) > 0 && u.Rule != rule[0] {
			continue
		}
		if u.Used.Minor != used || u.Held.Minor != held || u.Remaining.Minor != remaining {
			s.Fatalf("rule %s: %d used, %d held, %d remaining; want %d, %d, %d",
				u.Rule, u.Used.Minor, u.Held.Minor, u.Remaining.Minor, used, held, remaining)
		}
		return u
	}
	s.Fatalf("the budget has no rule %v", rule)
	return spend.Usage{}
}

// history returns the entries of the card.
func (s *fixture) history(o *spend.HistoryOptions) (list []spend.Entry) {
	s.Helper()
	for e, err := range s.b.History(ctx, "card", o) {
		if err != nil {
			s.Fatal(err)
		}
		list = append(list, e)
	}
	return list
}

// stateSize returns the size of the working set of the card.
func (s *fixture) stateSize() (n int) {
	s.Helper()
	key := s.c.name + "/card"
	err := s.l.View(ctx, &ledger.Job{Accounts: []string{key}, Run: func(snap ledger.Snapshot) (*ledger.Changes, error) {
		a, err := snap.Account(key)
		n = len(a.Rules) + len(a.State)
		return nil, err
	}})
	if err != nil {
		s.Fatal(err)
	}
	return n
}

// closed checks the answers to a context that has ended, and then those of a closed ledger.
func closed(s *fixture) {
	b, request := s.b, charge(1).in(s)
	ended, cancel := context.WithCancel(ctx)
	cancel()
	calls := map[string]func(ctx context.Context) error{
		"Charge":        func(ctx context.Context) error { return only(b.Charge(ctx, request.money())) },
		"ChargeAll":     func(ctx context.Context) error { return b.ChargeAll(ctx, []spend.Request{request.money()})[0].Err },
		"Remaining":     func(ctx context.Context) error { _, err := b.Remaining(ctx, "card"); return err },
		"Verify":        func(ctx context.Context) error { return b.Verify(ctx, "card") },
		"Prune":         func(ctx context.Context) error { _, err := b.Prune(ctx); return err },
		"PruneRequests": func(ctx context.Context) error { _, err := s.l.PruneRequests(ctx, "closed/", 0); return err },
		"History": func(ctx context.Context) error {
			_, err := s.l.History(ctx, "closed/card", ledger.Position{}, 1)
			return err
		},
	}
	for name, call := range calls {
		if err := call(ended); !errors.Is(err, context.Canceled) {
			s.Errorf("%s with an ended context: %v; want context.Canceled", name, err)
		}
	}
	s.shows(0, 0, 100_000)
	for range 2 {
		if err := s.l.Close(); err != nil {
			s.Errorf("Close: %v", err)
		}
	}
	for name, call := range calls {
		if err := call(ctx); !errors.Is(err, store.ErrClosed) {
			s.Errorf("%s on a closed ledger: %v; want ErrClosed", name, err)
		}
	}
}
