package spendtest

import (
	"fmt"
	"reflect"
	"time"

	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/store"
)

// at returns a request for n minor units at a merchant.
func (s *fixture) at(merchant string, n int64) spend.Request {
	return s.request(n, "merchant", merchant)
}

// values checks the used amounts that Remaining shows by value, of a budget with one rule.
func (s *fixture) values(b *spend.Budgets, want map[string]int64) {
	s.Helper()
	list, err := b.Remaining(ctx, "card")
	if err != nil {
		s.Fatal(err)
	}
	got := make(map[string]int64)
	for i, u := range list {
		if got[u.Value] = u.Used.Minor + u.Held.Minor; u.Tag != "merchant" || i > 0 && list[i-1].Value >= u.Value {
			s.Errorf("figure %d is %+v; want the tag, and the values in order", i, u)
		}
	}
	if !reflect.DeepEqual(got, want) {
		s.Fatalf("the values have used %v; want %v", got, want)
	}
	if err := b.Verify(ctx, "card"); err != nil {
		s.Error(err)
	}
}

// stateSize returns the size of the working set of the account "card".
func (s *fixture) stateSize(budget string) (n int) {
	s.Helper()
	key := budget + "/card"
	err := s.l.View(ctx, &ledger.Job{Accounts: []string{key}, Run: func(snap ledger.Snapshot) (*ledger.Changes, error) {
		a, err := snap.Account(key)
		n = len(a.State)
		return nil, err
	}})
	if err != nil {
		s.Fatal(err)
	}
	return n
}

// valueCases are about limits for each value of a tag.
func valueCases() []testCase {
	return []testCase{
		{
			name:  "a limit for each value",
			why:   "each value has the whole limit, also the empty one of requests without the tag; decisions name the value",
			rules: []spend.Rule{spend.Rolling("each", money(100), 1*days).Per("merchant").AtMost(money(500))},
			run: func(s *fixture, b *spend.Budgets) {
				s.yes(b.Charge(ctx, s.at("m1", 60)))
				s.advance(time.Hour)
				s.yes(b.Charge(ctx, s.at("m2", 100)))
				d := s.yes(b.Charge(ctx, s.request(90)))
				if u := d.Remaining[0]; u.Tag != "merchant" || u.Value != "" || u.Used != money(90) {
					s.Errorf("the figures of a request without the tag are %+v", u)
				}
				declined := s.at("m1", 41)
				s.no(23*time.Hour, "each")(b.Charge(ctx, declined))
				for range 2 { // the second is replayed
					d, err := b.Charge(ctx, declined)
					if err != nil || d.Declines[0].Value != "m1" || d.Declines[0].Used != money(60) || d.Remaining[0].Value != "m1" {
						s.Errorf("the decline is %+v, %v; want it to name m1", d, err)
					}
				}
				s.no(24*time.Hour, "each")(b.Charge(ctx, s.at("m2", 1)))
				s.no(store.Never, "each")(b.Charge(ctx, s.at("m3", 101)))
				s.values(b, map[string]int64{"": 90, "m1": 60, "m2": 100})
				set := spend.LimitsRequest{ID: s.id(), Account: "card", Limits: []spend.RuleLimit{{Rule: "each", Amount: money(150)}}}
				if d := s.yes(b.SetLimits(ctx, set)); len(d.Remaining) != 0 {
					s.Errorf("the answer to SetLimits shows %+v; want no value", d.Remaining)
				}
				s.yes(b.Charge(ctx, s.at("m1", 90)))
				s.yes(b.Charge(ctx, s.at("m2", 50)))
				s.no(23*time.Hour, "each")(b.Charge(ctx, s.at("m1", 1)))
				s.values(b, map[string]int64{"": 90, "m1": 150, "m2": 150})
				s.advance(23 * time.Hour)
				s.values(b, map[string]int64{"": 90, "m1": 90, "m2": 150})
				list, err := b.Remaining(ctx, "card")
				if err != nil || !list[1].GrowsAt.Equal(s.clock.now().Add(time.Hour)) {
					s.Errorf("m1 is %+v, %v; want it to grow in an hour", list[1], err)
				}
			},
		},
		{
			name: "follow-ups have the value of their spend",
			why:  "holds, captures and refunds count where the spend counts",
			rules: []spend.Rule{
				spend.Calendar("each", money(100), spend.Day, time.UTC).Per("merchant").CountsCredits(),
			},
			run: func(s *fixture, b *spend.Budgets) {
				hold := s.at("m1", 80)
				hold.TTL = time.Hour
				s.yes(b.Authorize(ctx, hold))
				s.yes(b.Charge(ctx, s.at("m2", 100)))
				s.no(time.Hour, "each")(b.Increase(ctx, spend.IncreaseRequest{ID: s.id(), HoldID: hold.ID, Amount: money(21)}))
				s.yes(b.Increase(ctx, spend.IncreaseRequest{ID: s.id(), HoldID: hold.ID, Amount: money(20)}))
				d := s.yes(b.Capture(ctx, spend.CaptureRequest{ID: s.id(), HoldID: hold.ID, Amount: money(70)}))
				if u := d.Remaining[0]; u.Value != "m1" || u.Used != money(70) || u.Held != money(30) {
					s.Errorf("after the capture: %+v", u)
				}
				s.yes(b.Refund(ctx, spend.RefundRequest{ID: s.id(), SpendID: hold.ID, Amount: money(15)}))
				s.yes(b.Credit(ctx, s.at("m2", 500)))
				s.values(b, map[string]int64{"m1": 85})
				s.yes(b.Charge(ctx, s.at("m2", 40)))
				s.advance(time.Hour) // the hold expires
				s.values(b, map[string]int64{"m1": 55, "m2": 40})
				s.advance(1 * days)
				s.values(b, map[string]int64{})
			},
		},
		{
			name: "values that no window needs",
			why:  "the working set of an account must not grow with its history",
			rules: []spend.Rule{
				spend.Rolling("amount", money(100), 1*days).Per("merchant"), spend.Count("number", 5, 1*days).Per("merchant"),
			},
			run: func(s *fixture, b *spend.Budgets) {
				name := "values that no window needs"
				s.yes(b.Charge(ctx, s.at("m000", 1)))
				s.advance(2 * days)
				s.yes(b.Charge(ctx, s.at("m001", 1)))
				one := s.stateSize(name)
				for i := range 300 {
					s.yes(b.Charge(ctx, s.at(fmt.Sprintf("m%03d", i), 1)))
				}
				if n := s.stateSize(name); n < 2*one {
					s.Errorf("the working set has %d bytes with 300 values and %d with one", n, one)
				}
				s.advance(2 * days)
				s.yes(b.Charge(ctx, s.at("m300", 1)))
				if n := s.stateSize(name); n > one+16 { // the numbers of entries have become longer
					s.Errorf("the working set has %d bytes after all windows have passed; want some %d", n, one)
				}
				if err := b.Verify(ctx, "card"); err != nil {
					s.Error(err)
				}
			},
		},
		{
			name:  "a rule for each value that is new",
			why:   "it counts what the ledger holds, by value, and a rule of another process keeps its figures",
			rules: []spend.Rule{spend.Lifetime("ever", money(1000))},
			run: func(s *fixture, _ *spend.Budgets) {
				name := s.budgetName()
				before := s.budget(name, spend.Lifetime("ever", money(1000)))
				after := s.budget(name, spend.Lifetime("each", money(100)).Per("merchant"))
				s.yes(before.Charge(ctx, s.at("m1", 70)))
				s.yes(before.Charge(ctx, s.at("m2", 30)))
				s.values(after, map[string]int64{"m1": 70, "m2": 30})
				s.no(store.Never, "each")(after.Charge(ctx, s.at("m1", 31)))
				s.yes(before.Charge(ctx, s.at("m1", 20)))
				s.values(after, map[string]int64{"m1": 90, "m2": 30})
				s.shows(before, 120, 0, 880)
				other := s.budget(name, spend.Lifetime("each", money(100)).Per("category"))
				list, err := other.Remaining(ctx, "card")
				if err != nil || len(list) != 1 || list[0].Tag != "category" || list[0].Value != "" || list[0].Used != money(120) {
					s.Errorf("for each category: %+v, %v; want 120 without one", list, err)
				}
			},
		},
	}
}
