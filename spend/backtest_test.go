package spend_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/brimgo/brim/spend"
)

// backtest returns the flips of a backtest, and the accounts.
func backtest(t *testing.T, b *spend.Budgets, since time.Time, rules spend.Budget) (flips []spend.Flip, accounts []spend.Replayed) {
	t.Helper()
	err := b.Backtest(t.Context(), spend.BacktestOptions{
		Rules: rules, Since: since,
		Flip: func(f spend.Flip) error { flips = append(flips, f); return nil },
		Done: func(r spend.Replayed) error { accounts = append(accounts, r); return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	return flips, accounts
}

// TestBacktestOfSameRules: by the rules that have decided no decision flips, whatever has happened.
func TestBacktestOfSameRules(t *testing.T) {
	decisions, entries := int64(0), int64(0)
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(1, seed))
		all := []spend.Rule{
			spend.Rolling("day", cents(100), day).AtMost(cents(300)), spend.Calendar("month", cents(500), spend.Month, time.UTC).CountsCredits(),
			spend.Count("often", 5, day).AtMost(spend.Money{Minor: 9}), spend.PerTransaction("one", cents(40)), spend.Lifetime("ever", cents(1000)), spend.Leaky("leaky", cents(64), 64*time.Hour),
			spend.Rolling("each", cents(60), 2*day).Per("shop"), spend.Count("tries", 7, day).CountsDeclines(), spend.Lifetime("net", cents(300)).CountsCredits(),
			spend.Rolling("small", cents(70), 3*day).MatchingAtMost(cents(20)), spend.Count("all", 9, day).CountsVoids(), spend.Rolling("try", cents(50), day).Shadow(),
		}
		some := func() (rules []spend.Rule) {
			for _, i := range r.Perm(len(all))[:1+r.IntN(4)] {
				rules = append(rules, all[i])
			}
			return rules
		}
		l := newTestLedger(t)
		budget := spend.Budget{Name: "cards", Currency: "EUR", Rules: some(), Plans: map[string][]spend.Rule{"p": some()}}
		b := revised(t, l, budget, nil)
		start := l.now
		var ids []string
		of := func() string {
			if len(ids) == 0 {
				return "none"
			}
			return ids[r.IntN(len(ids))]
		}
		for n := range 80 {
			l.now = l.now.Add(time.Duration(r.IntN(8*3600)) * time.Second)
			q := spend.Request{
				ID: fmt.Sprint(n), Account: "a", Amount: cents(1 + r.Int64N(45)), Tags: map[string]string{"shop": fmt.Sprint(r.IntN(3))},
				TTL: time.Duration(1+r.IntN(60)) * time.Hour, OnExpiry: spend.Expiry(r.IntN(3)),
			}
			at := cents(1 + r.Int64N(20))
			switch r.IntN(16) {
			case 0, 1:
				_, _ = b.Charge(t.Context(), q)
			case 2, 3:
				q.Forced = r.IntN(4) == 0
				_, _ = b.Authorize(t.Context(), q)
			case 4:
				_, _ = b.Capture(t.Context(), spend.CaptureRequest{ID: q.ID, HoldID: of(), Amount: at, Final: r.IntN(2) == 0, Force: r.IntN(2) == 0})
			case 5:
				_, _ = b.Void(t.Context(), spend.VoidRequest{ID: q.ID, HoldID: of()})
			case 6:
				_, _ = b.Increase(t.Context(), spend.IncreaseRequest{ID: q.ID, HoldID: of(), Amount: at})
			case 7:
				_, _ = b.Refund(t.Context(), spend.RefundRequest{ID: q.ID, SpendID: of(), Amount: at, Force: r.IntN(2) == 0})
			case 8:
				_, _ = b.Credit(t.Context(), spend.Request{ID: q.ID, Account: "a", Amount: q.Amount, Tags: q.Tags})
			case 9:
				_, _ = b.UpTo(t.Context(), spend.UpToRequest{Request: q, Least: cents(1), Hold: r.IntN(2) == 0})
			case 10:
				q.Dated = l.now.Add(-time.Duration(r.IntN(48)) * time.Hour)
				_, _ = b.Record(t.Context(), q)
			case 11:
				_, _ = b.Cancel(t.Context(), of(), "a")
			case 12:
				_, _ = b.SetPlan(t.Context(), spend.PlanRequest{ID: q.ID, Account: "a", Plan: []string{"", "p"}[r.IntN(2)]})
			case 13:
				limit := spend.RuleLimit{Rule: "day", Amount: cents(r.Int64N(300)), Until: l.now.Add(time.Duration(r.IntN(40)) * time.Hour)}
				if r.IntN(2) == 0 {
					limit = spend.RuleLimit{Rule: "often", Amount: spend.Money{Minor: r.Int64N(9)}}
				}
				_, _ = b.SetLimits(t.Context(), spend.LimitsRequest{ID: q.ID, Account: "a", Limits: []spend.RuleLimit{limit}})
			case 14:
				_, _ = b.Decrease(t.Context(), spend.DecreaseRequest{ID: q.ID, HoldID: of(), Amount: at})
				_, _ = b.ReverseRefund(t.Context(), spend.ReverseRequest{ID: q.ID + "r", SpendID: of(), Amount: at})
			case 15:
				_, _ = b.Freeze(t.Context(), spend.FreezeRequest{ID: q.ID, Account: "a", Reason: "lost"})
				_, _ = b.Charge(t.Context(), spend.Request{ID: q.ID + "c", Account: "a", Amount: at})
				_, _ = b.Unfreeze(t.Context(), spend.FreezeRequest{ID: q.ID + "u", Account: "a"})
			}
			ids = append(ids, q.ID)
		}
		flips, accounts := backtest(t, b, start, budget)
		for _, f := range flips {
			t.Errorf("seed %d: %+v", seed, f)
		}
		if len(accounts) > 0 {
			decisions, entries = decisions+accounts[0].Decisions, entries+accounts[0].Entries
		}
		if t.Failed() {
			t.Fatalf("the rules are %+v", budget)
		}
	}
	t.Logf("%d entries with %d decisions, and none flips", entries, decisions)
}

// TestBacktestOfTighterRules: the decisions flip that a plain sum says.
func TestBacktestOfTighterRules(t *testing.T) {
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(2, seed))
		l := newTestLedger(t)
		start := l.now
		type one struct {
			id       string
			n        int64
			at       time.Time
			approved bool
		}
		var all []one
		limit, other := 50+r.Int64N(100), 30+r.Int64N(150)
		b := budgets(t, l, spend.Rolling("day", cents(limit), day))
		for i := range 60 {
			l.now = l.now.Add(time.Duration(1+r.IntN(6*3600)) * time.Second)
			x := one{id: fmt.Sprint(i), n: 1 + r.Int64N(40), at: l.now}
			d, err := b.Charge(t.Context(), spend.Request{ID: x.id, Account: "a", Amount: cents(x.n)})
			if err != nil {
				t.Fatal(err)
			}
			x.approved = d.Approved
			all = append(all, x)
		}
		var want []string
		var counted []one
		for _, x := range all {
			used := int64(0)
			for _, y := range counted {
				if y.at.After(x.at.Add(-day)) {
					used += y.n
				}
			}
			fits := used+x.n <= other
			if fits {
				counted = append(counted, x)
			}
			if fits != x.approved {
				want = append(want, fmt.Sprint(x.id, " ", fits))
			}
		}
		flips, _ := backtest(t, b, start, spend.Budget{Name: "cards", Currency: "EUR", Rules: []spend.Rule{spend.Rolling("day", cents(other), day)}})
		var got []string
		for _, f := range flips {
			got = append(got, fmt.Sprint(f.Entry.RequestID, " ", f.Approved))
			if !f.Approved && !slices.Equal(f.Refused, []string{"day"}) || f.Approved && f.Amount != f.Entry.Amount {
				t.Errorf("%+v", f)
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("seed %d, %d instead of %d: %q flip; want %q", seed, other, limit, got, want)
		}
	}
}

// TestBacktestIsBounded: one account is replayed alone, and one with too many entries not at all.
func TestBacktestIsBounded(t *testing.T) {
	l := newTestLedger(t)
	start := l.now
	rules := spend.Budget{Name: "cards", Currency: "EUR", Rules: []spend.Rule{spend.PerTransaction("one", cents(9))}}
	b := revised(t, l, rules, nil)
	for i := range 5 {
		for _, account := range []string{"a", "b"}[:1+i%2] {
			if _, err := b.Charge(t.Context(), spend.Request{ID: fmt.Sprint(account, i), Account: account, Amount: cents(5)}); err != nil {
				t.Fatal(err)
			}
		}
	}
	tight := spend.Budget{Name: "cards", Currency: "EUR", Rules: []spend.Rule{spend.PerTransaction("one", cents(4))}}
	for _, c := range []struct {
		account string
		most    int64
		want    string
	}{
		{"", 0, "a 5 5, b 2 2"},
		{"a", 0, "a 5 5"},
		{"a", 5, "a 5 5"},
		{"a", 4, "a 0 0 it has 5 entries, and the most is 4"},
		{"", 4, "a 0 0 it has 5 entries, and the most is 4, b 2 2"},
		{"none", 4, "none 0 0"},
	} {
		flips, got := make(map[string]int), []string{}
		err := b.Backtest(t.Context(), spend.BacktestOptions{
			Rules: tight, Account: c.account, MaxEntries: c.most, Since: start,
			Flip: func(f spend.Flip) error { flips[f.Entry.Name]++; return nil },
			Done: func(r spend.Replayed) error {
				got = append(got, strings.TrimSpace(fmt.Sprint(r.Name, " ", r.Decisions, " ", flips[r.Name], " ", r.Skipped)))
				return nil
			},
		})
		if text := strings.Join(got, ", "); err != nil || text != c.want {
			t.Errorf("account %q, at most %d entries: %q, %v; want %q", c.account, c.most, text, err, c.want)
		}
	}
	if err := b.Backtest(t.Context(), spend.BacktestOptions{Rules: tight, Account: "\n"}); !errors.Is(err, spend.ErrRequest) {
		t.Errorf("an account that cannot be: %v", err)
	}
}

// TestBacktestBeginsWithAPlan: an account whose first request is SetPlan has no figures of the
// budget's own rules, and a backtest gives it none.
func TestBacktestBeginsWithAPlan(t *testing.T) {
	l := newTestLedger(t)
	budget := spend.Budget{
		Name: "cards", Currency: "EUR", Rules: []spend.Rule{spend.Leaky("leaky", cents(64), 64*time.Hour)},
		Plans: map[string][]spend.Rule{"p": {spend.PerTransaction("one", cents(64))}},
	}
	b := revised(t, l, budget, nil)
	start := l.now
	approve(t)(b.SetPlan(t.Context(), spend.PlanRequest{ID: "p", Account: "a", Plan: "p"}))
	charge(t, b, "1", 64)
	approve(t)(b.SetPlan(t.Context(), spend.PlanRequest{ID: "back", Account: "a"}))
	charge(t, b, "2", 64)
	if flips, _ := backtest(t, b, start, budget); len(flips) > 0 {
		t.Errorf("%d flips: %+v", len(flips), flips)
	}
}

// TestBacktestOfMovedMoney: a spend that takes the ID of a canceled decline has an amount of its
// own, by which rules with a bound take its increases.
func TestBacktestOfMovedMoney(t *testing.T) {
	l := newTestLedger(t)
	budget := spend.Budget{Name: "cards", Currency: "EUR", Rules: []spend.Rule{
		spend.Rolling("small", cents(100), day).MatchingAtMost(cents(90)), spend.PerTransaction("single", cents(300)),
	}}
	b := revised(t, l, budget, nil)
	start := l.now
	if d, err := b.Charge(t.Context(), spend.Request{ID: "x", Account: "a", Amount: cents(343)}); err != nil || d.Approved {
		t.Fatal(d, err)
	}
	approve(t)(b.Cancel(t.Context(), "x", "a"))
	approve(t)(b.Authorize(t.Context(), spend.Request{ID: "x", Account: "a", Amount: cents(49), Forced: true}))
	charge(t, b, "y", 50)
	if d, err := b.Increase(t.Context(), spend.IncreaseRequest{ID: "i", HoldID: "x", Amount: cents(2)}); err != nil || d.Approved {
		t.Fatal(d, err)
	}
	if flips, _ := backtest(t, b, start, budget); len(flips) > 0 {
		t.Errorf("%d flips: %+v", len(flips), flips)
	}
}
