package spendtest

import (
	"reflect"
	"time"

	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/store"
)

// creditCases are about money that comes in.
func creditCases() []testCase {
	return []testCase{
		{
			name: "a credit makes room where a rule counts it",
			why:  "a rule counts at most what it has used, and nothing of the rest later; other rules count nothing",
			rules: []spend.Rule{
				spend.Rolling("net", money(1000), 30*days).CountsCredits(),
				spend.Rolling("gross", money(5000), 30*days),
				spend.Lifetime("travel", money(9000)).Matching("category", "travel").CountsCredits(),
				spend.PerTransaction("single", money(1000)),
			},
			run: func(s *fixture, b *spend.Budgets) {
				s.yes(b.Charge(ctx, s.request(600)))
				s.yes(b.Authorize(ctx, s.request(100)))
				s.advance(1 * days)
				d := s.yes(b.Credit(ctx, s.request(900)))
				if d.Amount != money(900) || d.Remaining[0].Used.Minor != 0 || d.Remaining[1].Used.Minor != 600 {
					s.Errorf("the credit is answered by %+v", d)
				}
				s.shows(b, 0, 100, 900, "net") // held money is not spent yet
				s.shows(b, 600, 100, 4300, "gross")
				s.yes(b.Charge(ctx, s.request(900, "category", "travel")))
				s.no(6*days, "net")(b.Charge(ctx, s.request(1))) // when the hold expires
				s.yes(b.Credit(ctx, s.request(50, "category", "travel")))
				s.shows(b, 850, 100, 50, "net")
				s.shows(b, 850, 0, 8150, "travel")
				want := []map[string]spend.Money{{"net": money(50), "travel": money(50)}, nil, {"net": money(600)}}
				var got []map[string]spend.Money
				for e, err := range b.History(ctx, "card", &spend.HistoryOptions{Limit: 4}) {
					if err != nil {
						s.Fatal(err)
					}
					if e.Kind != "decline" {
						got = append(got, e.Credited)
					}
				}
				if !reflect.DeepEqual(got, want) {
					s.Errorf("the entries say that the rules counted %v; want %v", got, want)
				}
				if err := b.Verify(ctx, "card"); err != nil {
					s.Error(err)
				}
			},
		},
		{
			name:  "a credit pays for the oldest spend",
			why:   "the paid spend leaves the window first and makes no room, so no later window passes the limit",
			rules: []spend.Rule{spend.Rolling("net", money(1000), 30*days).CountsCredits()},
			run: func(s *fixture, b *spend.Budgets) {
				s.yes(b.Charge(ctx, s.request(1000)))
				s.advance(10 * days)
				s.yes(b.Credit(ctx, s.request(1000)))
				if at := s.shows(b, 0, 0, 1000).GrowsAt; !at.IsZero() {
					s.Errorf("GrowsAt is %v although all has been paid", at)
				}
				s.yes(b.Credit(ctx, s.request(1)))
				for e, err := range b.History(ctx, "card", &spend.HistoryOptions{Limit: 1}) {
					if err != nil || e.Credited != nil {
						s.Errorf("a credit where all has been paid: %+v, %v; want that no rule counts it", e, err)
					}
				}
				s.advance(10 * days)
				s.yes(b.Charge(ctx, s.request(1000)))
				second := s.clock.now()
				grows := func(used int64) {
					s.Helper()
					if at := s.shows(b, used, 0, 1000-used).GrowsAt; !at.Equal(second.Add(30 * days)) {
						s.Errorf("GrowsAt is %v; want the time at which the second spend leaves", at)
					}
					if err := b.Verify(ctx, "card"); err != nil {
						s.Error(err)
					}
				}
				grows(1000)
				s.no(30*days, "net")(b.Charge(ctx, s.request(1)))
				s.advance(10 * days) // the first spend leaves
				s.no(20*days, "net")(b.Charge(ctx, s.request(1000)))
				grows(1000)
				s.advance(10 * days)
				s.no(10*days, "net")(b.Charge(ctx, s.request(1)))
				s.advance(10*days - time.Microsecond)
				grows(1000)
				s.advance(time.Microsecond)
				s.shows(b, 0, 0, 1000)
				s.yes(b.Charge(ctx, s.request(1000)))
			},
		},
		{
			name:  "a spend that is paid in part",
			why:   "the unpaid rest of it makes room when it leaves",
			rules: []spend.Rule{spend.Rolling("net", money(1000), 30*days).CountsCredits().Per("category")},
			run: func(s *fixture, b *spend.Budgets) {
				food := func(n int64) spend.Request { return s.request(n, "category", "food") }
				s.yes(b.Charge(ctx, s.request(1000)))
				s.yes(b.Charge(ctx, food(600)))
				s.advance(5 * days)
				s.yes(b.Charge(ctx, food(300)))
				s.advance(1 * days)
				s.yes(b.Credit(ctx, food(700)))
				d := s.yes(b.Charge(ctx, food(800)))
				if d.Remaining[0].Used != money(1000) {
					s.Errorf("the charge is answered by %+v; want 1000 used", d)
				}
				s.no(29*days, "net")(b.Charge(ctx, food(200)))
				s.no(30*days, "net")(b.Charge(ctx, food(201)))
				s.advance(24 * days) // the spend of 600 leaves, and 100 are paid of that of 300
				s.no(5*days, "net")(b.Charge(ctx, food(200)))
				s.no(6*days, "net")(b.Charge(ctx, food(201)))
				s.advance(5 * days)
				s.yes(b.Charge(ctx, food(200)))
				if err := b.Verify(ctx, "card"); err != nil {
					s.Error(err)
				}
			},
		},
		{
			name:  "the end of a limit, and a paid spend",
			why:   "the wait counts by the figures at the end of the limit: the paid spend that leaves before it makes no room",
			rules: []spend.Rule{spend.Rolling("net", money(1000), 30*days).CountsCredits()},
			run: func(s *fixture, b *spend.Budgets) {
				s.yes(b.Charge(ctx, s.request(1000)))
				s.advance(1 * days)
				s.yes(b.Credit(ctx, s.request(1000)))
				s.advance(1 * days)
				s.yes(b.Charge(ctx, s.request(800)))
				s.advance(27*days + 12*time.Hour)
				s.shows(b, 800, 0, 200)
				s.limit(b, spend.RuleLimit{Rule: "net", Amount: money(100), Until: s.clock.now().Add(days)})
				s.no(60*time.Hour, "net")(b.Charge(ctx, s.request(500))) // when the spend of 800 leaves
				s.no(24*time.Hour, "net")(b.Charge(ctx, s.request(200))) // when the limit ends
			},
		},
		{
			name:  "a refund of what a credit has paid",
			why:   "no more is paid than was spent, and what is left stays paid",
			rules: []spend.Rule{spend.Rolling("net", money(1000), 30*days).CountsCredits()},
			run: func(s *fixture, b *spend.Budgets) {
				first, second := s.request(500), s.request(400)
				refund := func(b *spend.Budgets, r spend.Request, n int64) {
					s.Helper()
					s.yes(b.Refund(ctx, spend.RefundRequest{ID: s.id(), SpendID: r.ID, Amount: money(n)}))
				}
				s.yes(b.Charge(ctx, first))
				s.yes(b.Credit(ctx, s.request(500)))
				s.advance(1 * days)
				s.yes(b.Charge(ctx, second))
				refund(b, first, 100)
				s.shows(b, 300, 0, 700)
				refund(b, first, 400)
				s.shows(b, 0, 0, 1000)
				refund(b, second, 100)
				s.shows(b, 0, 0, 1000)
				s.yes(b.Charge(ctx, s.request(50)))
				s.shows(b, 50, 0, 950)
				s.advance(30 * days)
				s.shows(b, 0, 0, 1000)
				if err := b.Verify(ctx, "card"); err != nil {
					s.Error(err)
				}
			},
		},
		{
			name:  "a refund by a process without the rule",
			why:   "the spend had left the window before it was refunded, and with it all that was paid",
			rules: []spend.Rule{spend.PerTransaction("single", money(1000))},
			run: func(s *fixture, _ *spend.Budgets) {
				for _, rule := range []spend.Rule{
					spend.Rolling("rolling", money(1000), 30*days),
					spend.Calendar("month", money(1000), spend.Month, time.UTC),
				} {
					name := s.budgetName()
					with := s.budget(name, rule.CountsCredits())
					without := s.budget(name, spend.PerTransaction("single", money(1000)))
					first := s.request(1000)
					s.yes(with.Charge(ctx, first))
					s.yes(with.Credit(ctx, s.request(1000)))
					s.advance(32 * days)
					s.yes(without.Charge(ctx, s.request(600)))
					s.yes(without.Refund(ctx, spend.RefundRequest{ID: s.id(), SpendID: first.ID, Amount: money(1000)}))
					s.shows(with, 600, 0, 400)
					s.yes(with.Charge(ctx, s.request(100)))
					s.shows(with, 700, 0, 300)
					if err := with.Verify(ctx, "card"); err != nil {
						s.Error(err)
					}
				}
			},
		},
		{
			name:  "no credit is declined",
			why:   "the money has come in; it is idempotent as all requests, and begins no spend",
			rules: []spend.Rule{spend.Calendar("day", money(100), spend.Day, time.UTC).CountsCredits()},
			run: func(s *fixture, b *spend.Budgets) {
				s.yes(b.Charge(ctx, s.request(100)))
				s.yes(b.Freeze(ctx, spend.FreezeRequest{ID: s.id(), Account: "card", Reason: "lost"}))
				r := s.request(30)
				first := s.yes(b.Credit(ctx, r))
				s.shows(b, 70, 0, 30)
				first.Replayed = true
				if again := s.yes(b.Credit(ctx, r)); !reflect.DeepEqual(again, first) {
					s.Errorf("the retry got %+v; want %+v", again, first)
				}
				s.shows(b, 70, 0, 30)
				s.fails(spend.ErrIDReused)(b.Record(ctx, r))
				s.fails(spend.ErrUnknownSpend)(b.Refund(ctx, spend.RefundRequest{ID: s.id(), SpendID: r.ID, Amount: money(1)}))
				if x, err := b.Get(ctx, r.ID); err != nil || x.Spend != nil || !x.Decision.Approved {
					s.Errorf("Get: %+v, %v; want an approval without a spend", x, err)
				}
				r.ID, r.Amount = s.id(), money(0)
				s.fails(spend.ErrAmount)(b.Credit(ctx, r))
				d := s.yes(b.Credit(ctx, s.request(200)))
				if u := d.Remaining[0]; u.Used.Minor != 0 || !u.GrowsAt.IsZero() {
					s.Errorf("the credit of all is answered by %+v; want that nothing more can grow", u)
				}
				s.advance(1 * days)
				s.shows(b, 0, 0, 100)
			},
		},
		{
			name:  "a credit drains a leaky rule",
			why:   "money that came in makes room at once, but an empty bucket keeps nothing of it",
			rules: []spend.Rule{spend.Leaky("leaky", money(1024), 1024*time.Second).CountsCredits()},
			run: func(s *fixture, b *spend.Budgets) {
				s.yes(b.Charge(ctx, s.request(500)))
				s.advance(100 * time.Second)
				s.yes(b.Credit(ctx, s.request(150)))
				s.shows(b, 250, 0, 774)
				s.yes(b.Credit(ctx, s.request(300)))
				s.shows(b, 0, 0, 1024)
				s.no(store.Never, "leaky")(b.Charge(ctx, s.request(1025)))
				if err := b.Verify(ctx, "card"); err != nil {
					s.Error(err)
				}
			},
		},
		{
			name:  "a rule counts no credit from before it counted credits",
			why:   "nobody knows what it had used then; and a credit that is counted stays counted",
			rules: []spend.Rule{spend.PerTransaction("single", money(1000))},
			run: func(s *fixture, _ *spend.Budgets) {
				name := s.budgetName()
				rule := func(name string) spend.Rule { return spend.Rolling(name, money(1000), 30*days) }
				before := s.budget(name, rule("a").CountsCredits(), rule("b"))
				after := s.budget(name, rule("a"), rule("b").CountsCredits(), rule("c").CountsCredits())
				s.yes(before.Charge(ctx, s.request(500)))
				s.yes(before.Credit(ctx, s.request(100)))
				s.shows(after, 400, 0, 600, "a")
				s.shows(after, 500, 0, 500, "b")
				s.shows(after, 500, 0, 500, "c")
				s.yes(after.Credit(ctx, s.request(10)))
				s.shows(after, 400, 0, 600, "a")
				s.shows(after, 490, 0, 510, "b")
				s.shows(after, 490, 0, 510, "c")
				// The rule "a" of a process with another window counts the credits of neither.
				other := s.budget(name, spend.Rolling("a", money(1000), 31*days).CountsCredits())
				s.shows(other, 500, 0, 500, "a")
				for _, b := range []*spend.Budgets{before, after, other} {
					if err := b.Verify(ctx, "card"); err != nil {
						s.Error(err)
					}
				}
			},
		},
		{
			name:  "a rule that returns counts no earlier credit",
			why:   "the account has forgotten the rule, and the entries do not tell for which units a credit has paid",
			rules: []spend.Rule{spend.PerTransaction("single", money(1000))},
			run: func(s *fixture, _ *spend.Budgets) {
				name := s.budgetName()
				with := s.budget(name, spend.Lifetime("all", money(1000)).CountsCredits())
				without := s.budget(name, spend.PerTransaction("single", money(1000)))
				s.yes(with.Charge(ctx, s.request(500)))
				s.yes(with.Credit(ctx, s.request(200)))
				s.advance(spend.DefaultKeepIDs)
				s.yes(without.Charge(ctx, s.request(1)))
				s.shows(with, 301, 0, 699)
				s.advance(time.Microsecond)
				s.yes(without.Charge(ctx, s.request(2)))
				s.shows(with, 503, 0, 497)
				s.yes(with.Credit(ctx, s.request(3)))
				s.shows(with, 500, 0, 500)
				if err := with.Verify(ctx, "card"); err != nil {
					s.Error(err)
				}
			},
		},
		{
			name:  "pruning and credits",
			why:   "a credit that still counts is kept, and one that has left its window is not",
			rules: []spend.Rule{spend.Calendar("year", money(1000), spend.Year, time.UTC).CountsCredits()},
			run: func(s *fixture, b *spend.Budgets) {
				prune := func(used, entries int64) {
					s.Helper()
					if _, err := b.Prune(ctx); err != nil {
						s.Fatal(err)
					}
					for _, err := range b.History(ctx, "card", nil) {
						if entries--; err != nil {
							s.Fatal(err)
						}
					}
					if err := b.Verify(ctx, "card"); err != nil || entries != 0 {
						s.Errorf("Verify: %v; %d entries too few", err, entries)
					}
					s.shows(b, used, 0, 1000-used)
				}
				s.yes(b.Charge(ctx, s.request(900)))
				s.yes(b.Credit(ctx, s.request(400)))
				s.advance(200 * days)
				s.yes(b.Charge(ctx, s.request(100)))
				prune(600, 3)
				s.advance(400 * days)
				s.yes(b.Charge(ctx, s.request(7)))
				prune(7, 1)
			},
		},
		{
			name: "figures follow from the history", why: "the ledger explains them; it is all that a program has that reads it",
			rules: []spend.Rule{spend.Lifetime("all", money(10_000)).CountsCredits(), spend.Lifetime("gross", money(10_000))},
			run: func(s *fixture, b *spend.Budgets) {
				hold := s.request(300)
				s.yes(b.Authorize(ctx, hold))
				s.yes(b.Charge(ctx, s.request(200)))
				s.yes(b.Credit(ctx, s.request(500)))
				s.yes(b.Capture(ctx, spend.CaptureRequest{ID: s.id(), HoldID: hold.ID, Amount: money(100)}))
				s.yes(b.Credit(ctx, s.request(30)))
				s.yes(b.Refund(ctx, spend.RefundRequest{ID: s.id(), SpendID: hold.ID, Amount: money(20)}))
				used, held, credited := int64(0), int64(0), int64(0)
				for e, err := range b.History(ctx, "card", nil) {
					if err != nil {
						s.Fatal(err)
					}
					used, held, credited = used+e.Used.Minor, held+e.Held.Minor, credited+e.Credited["all"].Minor
				}
				s.shows(b, used, held, 10_000-used-held, "gross")
				s.shows(b, used-credited, held, 10_000-used-held+credited, "all")
				s.shows(b, 50, 200, 9750, "all")
			},
		},
	}
}
