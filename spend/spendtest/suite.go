package spendtest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/store"
)

// fixture is the ledger and the clock of one case.
type fixture struct {
	*testing.T
	h     Harness
	clock *testClock
	l     ledger.Ledger
	ids   int
}

// testCase is a case of the suite. why is the reason of the rule; a failure
// prints it.
type testCase struct {
	name, why string
	rules     []spend.Rule
	run       func(s *fixture, b *spend.Budgets)
}

// Run runs every case of the suite on a ledger of its own.
func Run(t *testing.T, h Harness) {
	for _, c := range cases() {
		t.Run(c.name, func(t *testing.T) { c.test(t, h) })
	}
	t.Run("closed", func(t *testing.T) { closed(t, h) })
}

// cases returns all cases, each with a name of its own.
func cases() (all []testCase) {
	for _, group := range [][]testCase{
		ruleCases(), holdCases(), requestCases(), changeCases(), maintenanceCases(), limitCases(),
		creditCases(), amountCases(), valueCases(), keyCases(), togetherCases(), exportCases(), scaleCases(),
		badInputCases(), raceCases(), crashCases(), rateCases(), pruningCases(), timeCases(),
	} {
		all = append(all, group...)
	}
	return all
}

// test runs the case on a new ledger.
func (c *testCase) test(t *testing.T, h Harness) {
	clock := &testClock{}
	clock.us.Store(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC).UnixMicro())
	s := &fixture{T: t, h: h, clock: clock, l: h.New(t, clock.now)}
	defer func() {
		if t.Failed() {
			t.Logf("why: %s", c.why)
		}
		if err := s.l.Close(); err != nil {
			t.Error(err)
		}
	}()
	c.run(s, s.budget(c.name, c.rules...))
}

func (s *fixture) budget(name string, rules ...spend.Rule) *spend.Budgets {
	s.Helper()
	b, err := spend.New(s.l, spend.Budget{Name: name, Currency: "EUR", Rules: rules}, nil)
	if err != nil {
		s.Fatal(err)
	}
	return b
}

func (s *fixture) advance(d time.Duration) { s.clock.us.Add(d.Microseconds()) }

func (s *fixture) id() string {
	s.ids++
	return fmt.Sprintf("%s/%d", s.Name(), s.ids)
}

// budgetName returns a new name for a budget, made from the name of the case.
func (s *fixture) budgetName() string {
	name := strings.ReplaceAll(s.id(), "/", "-")
	return name[max(0, len(name)-60):]
}

// request returns a request for n minor units. tags alternates names and values.
func (s *fixture) request(n int64, tags ...string) spend.Request {
	r := spend.Request{ID: s.id(), Account: "card", Amount: money(n)}
	for i := 0; i+1 < len(tags); i += 2 {
		if r.Tags == nil {
			r.Tags = make(map[string]string)
		}
		r.Tags[tags[i]] = tags[i+1]
	}
	return r
}

var ctx = context.Background()

// yes wants an approval.
func (s *fixture) yes(d spend.Decision, err error) spend.Decision {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
	if !d.Approved {
		s.Fatalf("the request was declined: %+v", d.Declines)
	}
	return d
}

// no wants a decline by exactly these rules, with that RetryAfter.
func (s *fixture) no(wait time.Duration, rules ...string) func(spend.Decision, error) {
	return func(d spend.Decision, err error) {
		s.Helper()
		if err != nil {
			s.Fatal(err)
		}
		var refused []string
		for _, x := range d.Declines {
			refused = append(refused, x.Rule)
		}
		if d.Approved || !reflect.DeepEqual(refused, rules) || d.RetryAfter != wait {
			s.Fatalf("approved is %t, %v refused and RetryAfter is %v; want a decline by %v and %v",
				d.Approved, refused, d.RetryAfter, rules, wait)
		}
	}
}

// fails wants the error.
func (s *fixture) fails(want error) func(spend.Decision, error) {
	return func(_ spend.Decision, err error) {
		s.Helper()
		if !errors.Is(err, want) {
			s.Fatalf("the error is %v; want %v", err, want)
		}
	}
}

// shows checks the figures of the named rule, or of the first one.
func (s *fixture) shows(b *spend.Budgets, used, held, remaining int64, rule ...string) spend.Usage {
	s.Helper()
	list, err := b.Remaining(ctx, "card")
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

// closed checks the answers of a closed ledger, and the answers to a context
// that has ended.
func closed(t *testing.T, h Harness) {
	clock := &testClock{}
	l := h.New(t, clock.now)
	b, err := spend.New(l, spend.Budget{
		Name: "closed", Currency: "EUR", Rules: []spend.Rule{spend.Lifetime("all", money(100))},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	request := spend.Request{ID: "closed/" + t.Name(), Account: "card", Amount: money(1)}
	if _, err := b.Charge(ended, request); !errors.Is(err, context.Canceled) {
		t.Errorf("Charge with an ended context: %v; want context.Canceled", err)
	}
	if answers := b.ChargeAll(ended, []spend.Request{request}); !errors.Is(answers[0].Err, context.Canceled) {
		t.Errorf("ChargeAll with an ended context: %v; want context.Canceled", answers[0].Err)
	}
	if _, err := b.Remaining(ended, "card"); !errors.Is(err, context.Canceled) {
		t.Errorf("Remaining with an ended context: %v; want context.Canceled", err)
	}
	if shown, err := b.Remaining(ctx, "card"); err != nil || shown[0].Used.Minor != 0 {
		t.Errorf("a call with an ended context has charged the account: %+v, %v", shown, err)
	}
	for range 2 {
		if err := l.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
	for name, call := range map[string]func() error{
		"Charge":    func() error { _, err := b.Charge(ctx, request); return err },
		"ChargeAll": func() error { return b.ChargeAll(ctx, []spend.Request{request})[0].Err },
		"Remaining": func() error { _, err := b.Remaining(ctx, "card"); return err },
		"Verify":    func() error { return b.Verify(ctx, "card") },
		"Prune":     func() error { _, err := b.Prune(ctx); return err },
		"PruneRequests": func() error {
			_, err := l.PruneRequests(ctx, "closed/", 0)
			return err
		},
		"History": func() error {
			_, err := l.History(ctx, "closed/card", ledger.Position{}, 1)
			return err
		},
	} {
		if err := call(); !errors.Is(err, store.ErrClosed) {
			t.Errorf("%s on a closed ledger: %v; want ErrClosed", name, err)
		}
	}
}
