// Package kept has buckets and spends of every kind, which a version of brim has stored in a file
// or in tables of testdata, and which all later versions must read: nobody loses money by an
// upgrade.
package kept

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/brimgo/brim/brimtest"
	"github.com/brimgo/brim/internal/differ"
	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/spend/memledger"
)

var (
	start = time.Date(2026, 1, 2, 3, 4, 5, 600_000, time.UTC)
	end   = start.Add(240 * 24 * time.Hour) // the time of the last spend; IDs are kept for 200 days
)

func eur(minor int64) spend.Money { return spend.Money{Minor: minor, Currency: "EUR"} }

// cards has a rule of each kind.
func cards() spend.Budget {
	return spend.Budget{
		Name: "cards", Currency: "EUR", Revision: 1,
		Rules: []spend.Rule{
			spend.Rolling("window", eur(80_000), 30*24*time.Hour), spend.Calendar("month", eur(90_000), spend.Month, time.UTC).Thresholds(50),
			spend.PerTransaction("single", eur(30_000)), spend.Count("often", 20, time.Hour),
			spend.CountPer("visits", 50, spend.Week, time.UTC).WeekStarting(time.Sunday), spend.Leaky("refill", eur(100_000), 30*24*time.Hour).CountsCredits(),
			spend.Lifetime("total", eur(1_000_000)).AtMost(eur(2_000_000)), spend.Lifetime("merchant", eur(50_000)).Per("merchant"),
			spend.Rolling("german", eur(1), 24*time.Hour).Matching("country", "DE").Shadow(),
		},
		Plans: map[string][]spend.Rule{"gold": {spend.Rolling("window", eur(160_000), 30*24*time.Hour)}},
	}
}

// budgets opens the budgets of a ledger, and stores their rules if it is new.
func budgets(ctx context.Context, l ledger.Ledger) (*spend.Budgets, error) {
	teams := spend.Budget{Name: "teams", Currency: "EUR", Rules: []spend.Rule{spend.Calendar("year", eur(10_000_000), spend.Year, time.UTC)}}
	return spend.New(ctx, l, cards(), &spend.Options{Budgets: []spend.Budget{teams}})
}

// step is a request at a time after start.
type step struct {
	after time.Duration
	id    string
	send  func(ctx context.Context, b *spend.Budgets, id string) (spend.Decision, error)
}

var steps = makeSteps()

func makeSteps() (list []step) {
	at := time.Duration(0)
	add := func(id string, send func(ctx context.Context, b *spend.Budgets, id string) (spend.Decision, error)) {
		at += 7 * time.Minute
		list = append(list, step{at, id, send})
	}
	charge := func(id, account string, minor int64, tags ...string) {
		r := spend.Request{ID: id, Account: account, Amount: eur(minor), Also: []spend.Account{{Budget: "teams", Name: "t"}}}
		if len(tags) > 0 {
			r.Tags = map[string]string{"merchant": tags[0], "country": "DE"}
		}
		add(id, func(ctx context.Context, b *spend.Budgets, _ string) (spend.Decision, error) { return b.Charge(ctx, r) })
	}
	hold := func(id, account string, minor int64, ttl time.Duration, fate spend.Expiry) {
		add(id, func(ctx context.Context, b *spend.Budgets, id string) (spend.Decision, error) {
			return b.Authorize(ctx, spend.Request{
				ID: id, Account: account, Amount: eur(minor), TTL: ttl, OnExpiry: fate, Tags: map[string]string{"merchant": "hotel"},
			})
		})
	}
	capture := func(id, hold string, minor int64, final bool) {
		add(id, func(ctx context.Context, b *spend.Budgets, id string) (spend.Decision, error) {
			return b.Capture(ctx, spend.CaptureRequest{ID: id, HoldID: hold, Amount: eur(minor), Final: final})
		})
	}
	// Prune will remove these.
	charge("old charge", "a", 1_000, "bakery")
	hold("old hold", "a", 2_000, time.Hour, 0)
	hold("old hold that spends", "a", 3_000, time.Hour, spend.SpendOnExpiry)
	add("old cancel", func(ctx context.Context, b *spend.Budgets, id string) (spend.Decision, error) {
		return b.Cancel(ctx, id, "old")
	})
	// Prune will keep these, but the first hold.
	at = 235 * 24 * time.Hour
	charge("charge", "a", 1_234, "bakery")
	charge("declined", "a", 30_001)
	hold("expires", "a", 4_000, time.Hour, 0)
	hold("spends", "a", 5_000, time.Hour, spend.SpendOnExpiry)
	hold("open", "a", 6_000, 60*24*time.Hour, 0)
	hold("captured", "a", 7_000, 60*24*time.Hour, 0)
	capture("capture 1", "captured", 1_500, false)
	add("increase", func(ctx context.Context, b *spend.Budgets, id string) (spend.Decision, error) {
		return b.Increase(ctx, spend.IncreaseRequest{ID: id, HoldID: "captured", Amount: eur(800)})
	})
	add("decrease", func(ctx context.Context, b *spend.Budgets, id string) (spend.Decision, error) {
		return b.Decrease(ctx, spend.DecreaseRequest{ID: id, HoldID: "captured", Amount: eur(300)})
	})
	capture("capture 2", "captured", 100, true)
	add("extend", func(ctx context.Context, b *spend.Budgets, id string) (spend.Decision, error) {
		return b.Extend(ctx, spend.ExtendRequest{ID: id, HoldID: "open", TTL: 90 * 24 * time.Hour})
	})
	add("refund", func(ctx context.Context, b *spend.Budgets, id string) (spend.Decision, error) {
		return b.Refund(ctx, spend.RefundRequest{ID: id, SpendID: "charge", Amount: eur(34)})
	})
	add("reverse", func(ctx context.Context, b *spend.Budgets, id string) (spend.Decision, error) {
		return b.ReverseRefund(ctx, spend.ReverseRequest{ID: id, SpendID: "charge", Amount: eur(4)})
	})
	add("credit", func(ctx context.Context, b *spend.Budgets, id string) (spend.Decision, error) {
		return b.Credit(ctx, spend.Request{ID: id, Account: "a", Amount: eur(500)})
	})
	add("limits", func(ctx context.Context, b *spend.Budgets, id string) (spend.Decision, error) {
		return b.SetLimits(ctx, spend.LimitsRequest{ID: id, Account: "a", Limits: []spend.RuleLimit{
			{Rule: "total", Amount: eur(1_500_000), Until: end.Add(time.Hour)}, {Rule: "window", Amount: eur(70_000)},
		}})
	})
	charge("of b", "b", 2_500, "bakery")
	hold("void", "b", 100, 0, 0)
	add("voided", func(ctx context.Context, b *spend.Budgets, id string) (spend.Decision, error) {
		return b.Void(ctx, spend.VoidRequest{ID: id, HoldID: "void"})
	})
	add("freeze", func(ctx context.Context, b *spend.Budgets, id string) (spend.Decision, error) {
		return b.Freeze(ctx, spend.FreezeRequest{ID: id, Account: "b", Reason: "lost card"})
	})
	charge("frozen", "b", 1)
	for i := range 6 { // pgledger has a table for the holds from the fifth on
		hold(fmt.Sprint("open ", i), "e", int64(100+i), time.Duration(60-i)*24*time.Hour, 0)
	}
	add("plan", func(ctx context.Context, b *spend.Budgets, id string) (spend.Decision, error) {
		return b.SetPlan(ctx, spend.PlanRequest{ID: id, Account: "c", Plan: "gold"})
	})
	charge("of c", "c", 29_999)
	add("move", func(ctx context.Context, b *spend.Budgets, id string) (spend.Decision, error) {
		return b.MoveAccount(ctx, spend.MoveRequest{ID: id, Account: "c", To: "d", Reason: "card replaced"})
	})
	add("cancel", func(ctx context.Context, b *spend.Budgets, id string) (spend.Decision, error) {
		return b.Cancel(ctx, id, "a")
	})
	return list
}

// Spend makes the spends in a new ledger whose time is that of the clock, and prunes it.
func Spend(ctx context.Context, l ledger.Ledger, clock *brimtest.Clock) error {
	clock.Set(start)
	b, err := budgets(ctx, l)
	if err != nil {
		return err
	}
	for _, s := range steps {
		clock.Set(start.Add(s.after))
		if _, err := s.send(ctx, b, s.id); err != nil {
			return fmt.Errorf("%s: %w", s.id, err)
		}
	}
	clock.Set(end)
	_, err = b.Prune(ctx)
	return err
}

// seen is all that callers see of the spends.
type seen struct {
	Entries   []spend.Entry
	Remaining map[string][]spend.Usage
	Limits    map[string][]spend.RuleLimit
	Plans     map[string]string
	Holds     map[string][]spend.Status
	Answers   map[string]spend.Lookup
	Again     map[string]spend.Decision // answers to the same requests
	Rules     []spend.Revision
}

func see(ctx context.Context, l ledger.Ledger) (s seen, err error) {
	s = seen{
		Remaining: make(map[string][]spend.Usage), Limits: make(map[string][]spend.RuleLimit), Plans: make(map[string]string),
		Holds: make(map[string][]spend.Status), Answers: make(map[string]spend.Lookup), Again: make(map[string]spend.Decision),
	}
	b, err := budgets(ctx, l)
	if err != nil {
		return s, err
	}
	note := func(e error) { err = errors.Join(err, e) }
	for e, failed := range b.Export(ctx, spend.Entry{}) {
		note(failed)
		s.Entries = append(s.Entries, e)
	}
	for r, failed := range b.Rules(ctx) {
		note(failed)
		s.Rules = append(s.Rules, r)
	}
	for _, account := range []string{"a", "b", "c", "d", "e"} {
		var failed error
		s.Remaining[account], failed = b.Remaining(ctx, account)
		note(failed)
		s.Limits[account], failed = b.Limits(ctx, account)
		note(failed)
		s.Plans[account], failed = b.Plan(ctx, account)
		note(failed)
		for h, failed := range b.Holds(ctx, account) {
			note(failed)
			s.Holds[account] = append(s.Holds[account], h)
		}
	}
	for _, step := range steps {
		answer, failed := b.Get(ctx, step.id)
		if errors.Is(failed, spend.ErrUnknownSpend) {
			continue // Prune has removed it
		}
		note(failed)
		s.Answers[step.id] = answer
		s.Again[step.id], failed = step.send(ctx, b, step.id)
		note(failed)
	}
	teams, failed := b.ForBudget(ctx, "teams")
	if note(failed); failed == nil {
		note(teams.Verify(ctx, "t"))
	}
	accounts, failed := b.VerifyAll(ctx)
	if note(failed); failed == nil && accounts != 5 { // a, b, d, e, and that of the old cancel
		note(fmt.Errorf("the ledger has %d accounts; want 5", accounts))
	}
	return s, err
}

// Compare sees that a ledger has the spends that [Spend] makes, whichever version has made them,
// and goes on with them. The clock is that of the ledger.
func Compare(t testing.TB, l ledger.Ledger, clock *brimtest.Clock) {
	t.Helper()
	fresh := brimtest.NewClock(start)
	want := memledger.New(&memledger.Options{Clock: fresh.Now})
	defer func() { _ = want.Close() }()
	if err := Spend(t.Context(), want, fresh); err != nil {
		t.Fatal(err)
	}
	compare := func(at time.Time) {
		t.Helper()
		clock.Set(at)
		fresh.Set(at)
		saw, err := see(t.Context(), l)
		wants, wantErr := see(t.Context(), want)
		if d := differ.Fields(saw, wants); d != "" || err != nil || wantErr != nil {
			t.Errorf("%v, %v; the spends of an earlier version differ from those that this version makes:\n%s", err, wantErr, d)
		}
	}
	compare(end)
	for _, of := range []ledger.Ledger{l, want} {
		b, err := budgets(t.Context(), of)
		if err != nil {
			t.Fatal(err)
		}
		d, err := b.Capture(t.Context(), spend.CaptureRequest{ID: "capture later", HoldID: "open", Amount: eur(5_999), Final: true})
		if err != nil || !d.Approved {
			t.Errorf("a capture of an open hold: %+v, %v", d, err)
		}
		d, err = b.Charge(t.Context(), spend.Request{ID: "charge later", Account: "d", Amount: eur(130_002)})
		if err != nil || d.Approved {
			t.Errorf("a charge of a cent more than the plan leaves: %+v, %v; want a decline", d, err)
		}
	}
	compare(end.Add(40 * 24 * time.Hour))
}
