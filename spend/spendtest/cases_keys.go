package spendtest

import (
	"fmt"
	"strings"

	"github.com/brimgo/brim/spend"
)

// keyCases are about IDs, accounts and names that a ledger might confuse, or not
// keep whole.
func keyCases() []testCase {
	window := []spend.Rule{spend.Rolling("month", money(1000), 30*days)}
	return []testCase{
		{
			name: "IDs are compared byte by byte", why: "two requests with similar IDs are two requests", rules: window,
			run: func(s *fixture, b *spend.Budgets) {
				base := s.id()
				long := strings.Repeat("x", 127-len(base))
				ids := []string{
					base + "a", base + "A", base + "a ", base + " a", base + "é", base + "e\u0301", base + "%", base + "_",
					base + long + "a", base + long + "b", base,
				}
				for i, id := range ids {
					r := spend.Request{ID: id, Account: "card", Amount: money(1)}
					if d := s.yes(b.Charge(ctx, r)); d.Replayed {
						s.Errorf("ID %d of %d is taken for an earlier one", i, len(ids))
					}
				}
				s.shows(b, int64(len(ids)), 0, 1000-int64(len(ids)))
			},
		},
		{
			name: "accounts are compared byte by byte", why: "nobody may spend from the account of another", rules: window,
			run: func(s *fixture, b *spend.Budgets) {
				long := strings.Repeat("x", 250)
				accounts := []string{"a", "A", "a ", " a", "é", "e\u0301", "%", "_", long + "a", long + "b", long}
				for i, account := range accounts {
					r := spend.Request{ID: s.id(), Account: account, Amount: money(int64(i + 1))}
					s.yes(b.Charge(ctx, r))
				}
				for i, account := range accounts {
					list, err := b.Remaining(ctx, account)
					if err != nil || list[0].Used.Minor != int64(i+1) {
						s.Errorf("account %d shows %+v, %v; want %d used", i, list, err, i+1)
					}
				}
			},
		},
		{
			name: "many rules", why: "the data of an account and the answer to a request have any length", rules: window,
			run: func(s *fixture, _ *spend.Budgets) {
				var rules []spend.Rule
				for i := range 20 {
					rules = append(rules, spend.Lifetime(fmt.Sprint("rule-", i, strings.Repeat("-", 40)), money(int64(100+i))))
				}
				b := s.budget(s.budgetName(), rules...)
				r := s.request(60)
				first := s.yes(b.Charge(ctx, r))
				if d := s.yes(b.Charge(ctx, r)); !d.Replayed || len(d.Remaining) != 20 || d.Remaining[19] != first.Remaining[19] {
					s.Errorf("the retry of a charge by 20 rules got %+v; want %+v", d, first)
				}
				s.shows(b, 60, 0, 59, fmt.Sprint("rule-", 19, strings.Repeat("-", 40)))
			},
		},
		{
			name: "each request keeps its own answer", why: "a retry must not get the answer to another request", rules: window,
			run: func(s *fixture, b *spend.Budgets) {
				mine, others, declined := s.request(700), s.request(1), s.request(400)
				others.Account = "another card"
				s.yes(b.Charge(ctx, mine))
				s.yes(b.Charge(ctx, others))
				s.no(30*days, "month")(b.Charge(ctx, declined))
				for _, c := range []struct {
					r         spend.Request
					remaining int64
				}{{mine, 300}, {others, 999}, {declined, 300}} {
					d, err := b.Charge(ctx, c.r)
					if err != nil || !d.Replayed || d.Approved != (c.r.ID != declined.ID) ||
						d.Remaining[0].Remaining.Minor != c.remaining || d.Remaining[0].Account.Name != c.r.Account {
						s.Errorf("a retry on %s got %+v, %v; want %d remaining", c.r.Account, d, err, c.remaining)
					}
				}
				s.sound(b, 2)
			},
		},
	}
}
