package spendtest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/ledger"
)

// bench is one case's ledger, clock and budgets.
type stand struct {
	*testing.T
	clock *testClock
	l     ledger.Ledger
	ids   int
}

// testCase is a case of the suite: what must be, and why.
type testCase struct {
	name, why string
	rules     []spend.Rule
	run       func(s *stand, b *spend.Budgets)
}

// Run runs the cases that give a reason against the harness's ledgers.
func Run(t *testing.T, h Harness) {
	for _, group := range [][]testCase{ruleCases(), holdCases(), requestCases(), changeCases(), maintenanceCases()} {
		for i, c := range group {
			t.Run(c.name, func(t *testing.T) {
				clock := &testClock{}
				clock.us.Store(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC).UnixMicro())
				s := &stand{T: t, clock: clock, l: h.New(t, clock.now)}
				defer func() {
					if t.Failed() {
						t.Logf("the rule: %s", c.why)
					}
					if err := s.l.Close(); err != nil {
						t.Error(err)
					}
				}()
				c.run(s, s.budget(fmt.Sprintf("%s-%d", c.name, i), c.rules...))
			})
		}
	}
	t.Run("closed", func(t *testing.T) { closed(t, h) })
}

func (s *stand) budget(name string, rules ...spend.Rule) *spend.Budgets {
	s.Helper()
	b, err := spend.New(s.l, spend.Budget{Name: name, Currency: "EUR", Rules: rules}, nil)
	if err != nil {
		s.Fatal(err)
	}
	return b
}

func (s *stand) advance(d time.Duration) { s.clock.us.Add(d.Microseconds()) }

func (s *stand) id() string {
	s.ids++
	return fmt.Sprintf("%s/%d", s.Name(), s.ids)
}

// request is one of that many minor units.
func (s *stand) request(n int64, tags ...string) spend.Request {
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

// yes and no check a decision.
func (s *stand) yes(d spend.Decision, err error) spend.Decision {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
	if !d.Approved {
		s.Fatalf("declined: %+v", d.Declines)
	}
	return d
}

// no wants exactly these rules to refuse, for that long.
func (s *stand) no(wait time.Duration, rules ...string) func(spend.Decision, error) {
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
			s.Fatalf("approved is %t, %v refused, for %v; want %v to refuse for %v", d.Approved, refused, d.RetryAfter, rules, wait)
		}
	}
}

// fails wants an error.
func (s *stand) fails(want error) func(spend.Decision, error) {
	return func(_ spend.Decision, err error) {
		s.Helper()
		if !errors.Is(err, want) {
			s.Fatalf("error is %v; want %v", err, want)
		}
	}
}

// shows checks used, held and remaining of the only, or the named, rule.
func (s *stand) shows(b *spend.Budgets, used, held, remaining int64, rule ...string) spend.Usage {
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
			s.Fatalf("rule %s: %d used, %d held, %d remaining; want %d, %d, %d", u.Rule, u.Used.Minor, u.Held.Minor, u.Remaining.Minor, used, held, remaining)
		}
		return u
	}
	s.Fatalf("no rule %v", rule)
	return spend.Usage{}
}

// closed checks what a closed ledger and a context that is over answer.
func closed(t *testing.T, h Harness) {
	clock := &testClock{}
	l := h.New(t, clock.now)
	b, err := spend.New(l, spend.Budget{Name: "closed", Currency: "EUR", Rules: []spend.Rule{spend.Lifetime("all", money(100))}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	over, cancel := context.WithCancel(ctx)
	cancel()
	request := spend.Request{ID: "closed/" + t.Name(), Account: "card", Amount: money(1)}
	if _, err := b.Charge(over, request); !errors.Is(err, context.Canceled) {
		t.Errorf("spend with a context that is over: %v", err)
	}
	if _, err := b.Remaining(over, "card"); !errors.Is(err, context.Canceled) {
		t.Errorf("remaining with a context that is over: %v", err)
	}
	if shown, err := b.Remaining(ctx, "card"); err != nil || shown[0].Used.Minor != 0 {
		t.Errorf("a call whose context was over has spent: %+v, %v", shown, err)
	}
	for range 2 {
		if err := l.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}
	if _, err := b.Charge(ctx, request); err == nil {
		t.Error("a closed ledger decides")
	}
}
