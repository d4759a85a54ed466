package spendtest

import (
	"context"
	"fmt"

	"github.com/brimgo/brim/spend"
)

// together sends a few charges together, some of them on one account.
func (s *sequence) together() error {
	now := s.clock.us.Load()
	var requests []spend.Request
	var amounts []int64
	var spends []*modelSpend
	for range 1 + s.r.IntN(4) {
		r := spend.Request{ID: s.id(), Account: s.account(), Amount: money(s.amount()), Tags: s.tags()}
		amounts = append(amounts, r.Amount.Minor)
		r.Amount = s.scaled(r.Amount)
		requests = append(requests, r)
		spends = append(spends, &modelSpend{accounts: []string{r.Account}, tags: r.Tags, first: amounts[len(amounts)-1]})
	}
	for i, a := range s.budgets.ChargeAll(context.Background(), requests) {
		r, n := requests[i], amounts[i]
		s.tell("together %s %v %v of %d: %t %v", r.ID, spends[i].accounts, r.Tags, n, a.Decision.Approved, a.Err)
		if a.Err != nil {
			return a.Err
		}
		s.model.decided(s.rules, spends[i].accounts, now)
		if err := s.judge(a.Decision, spends[i], n, n, 1); err != nil {
			return fmt.Errorf("%s, sent together with others: %w", r.ID, err)
		}
		s.sent = append(s.sent, sent{
			r.ID, func(b *spend.Budgets) (spend.Decision, error) { return b.Charge(context.Background(), r) }, a.Decision,
		})
		if a.Decision.Approved {
			s.model.charge(s.rules, r.ID, spends[i], false, n, now, now)
		}
	}
	return nil
}
