package pgledger_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/store"
)

// failing is a ledger that fails to decide.
type failing struct {
	ledger.Ledger
	err error
}

func (f *failing) Decide(ctx context.Context, job *ledger.Job) error {
	if f.err != nil {
		return f.err
	}
	return f.Ledger.Decide(ctx, job)
}

// TestSharded decides about accounts on two servers, and then on three.
func TestSharded(t *testing.T) {
	pool, ctx := pgtest.Pool(t), t.Context()
	now := time.Now()
	server := func() *failing {
		return &failing{over(t, pool, &postgres.Options{Schema: migrated(t), Clock: func() time.Time { return now }}), nil}
	}
	first, second := server(), server()
	both := &sharded{[]ledger.Ledger{first, second}, map[string]int{"00": 0, "01": 1}}
	budget := func(revision, limit int64) spend.Budget {
		return spend.Budget{
			Name: "cards", Currency: "EUR", Revision: revision, Rules: []spend.Rule{spend.Rolling("day", euros(limit), 24*time.Hour)},
			Plans: map[string][]spend.Rule{"gold": {spend.Rolling("day", euros(1000), 24*time.Hour)}},
		}
	}
	teams := spend.Budget{Name: "teams", Currency: "EUR", Rules: []spend.Rule{spend.Lifetime("ever", euros(50))}}
	start := func() *spend.Budgets {
		t.Helper()
		cards, err := spend.New(ctx, both, budget(1, 100), &spend.Options{Budgets: []spend.Budget{teams}})
		if err != nil {
			t.Fatal(err)
		}
		return cards
	}
	cards := start()
	of, err := cards.ForBudget(ctx, "teams")
	if err != nil {
		t.Fatal(err)
	}
	charge := func(id, account string, n int64, also ...spend.Account) (spend.Decision, error) {
		return cards.Charge(ctx, spend.Request{ID: id, Account: account, Amount: euros(n), Also: also})
	}
	wants := func(what string, approved bool, want error) func(spend.Decision, error) {
		return func(d spend.Decision, err error) {
			t.Helper()
			if d.Approved != approved || !errors.Is(err, want) {
				t.Errorf("%s: %+v, %v; want approved %t, %v", what, d, err, approved, want)
			}
		}
	}
	sales := spend.Account{Budget: "teams", Name: "00-sales"}
	wants("a card", true, nil)(charge("00-a/1", "00-card:7", 60))
	wants("a retry", true, nil)(charge("00-a/1", "00-card:7", 60))
	wants("too much", false, nil)(charge("00-b", "00-card:7", 41))
	wants("a team beside it", true, nil)(charge("00-c", "00-card:7", 10, sales))
	wants("a team elsewhere", false, errors.ErrUnsupported)(charge("01-d", "01-card:8", 10, sales))
	wants("an ID of another shard", false, errors.ErrUnsupported)(charge("00-e", "01-card:8", 10))
	wants("no shard", false, spend.ErrRequest)(charge("f", "01-card:8", 10))
	wants("a hold", true, nil)(cards.Authorize(ctx, spend.Request{ID: "01-g", Account: "01-card:8", Amount: euros(30)}))
	wants("its capture", true, nil)(cards.Capture(ctx, spend.CaptureRequest{ID: "01-h", HoldID: "01-g", Amount: euros(30), Final: true}))
	wants("an account that moves", true, nil)(cards.MoveAccount(ctx, spend.MoveRequest{ID: "01-i", Account: "01-card:8", To: "01-card:9", Reason: "lost"}))
	wants("one that moves to another server", false, errors.ErrUnsupported)(cards.MoveAccount(ctx, spend.MoveRequest{ID: "01-j", Account: "01-card:9", To: "00-card:9", Reason: "lost"}))
	if got, err := cards.Get(ctx, "01-g"); err != nil || !got.Decision.Approved {
		t.Errorf("a spend by its ID: %+v, %v", got, err)
	}
	for i, a := range cards.ChargeAll(ctx, []spend.Request{{ID: "00-k", Account: "00-card:7", Amount: euros(1)}, {ID: "01-k", Account: "01-card:9", Amount: euros(1)}}) {
		wants(fmt.Sprint("charge ", i, " of all"), true, nil)(a.Decision, a.Err)
	}

	// Rules hold on every server, also on one that was away or is new.
	second.err = store.ErrUnavailable
	if err := cards.SetRules(ctx, budget(2, 200), nil); !errors.Is(err, store.ErrUnknownOutcome) {
		t.Errorf("rules that one server lacks: %v", err)
	}
	second.err = nil
	if err := cards.SetRules(ctx, budget(2, 200), nil); err != nil {
		t.Error(err)
	}
	both.servers, both.home["02"] = append(both.servers, server()), 2
	cards = start()
	for i, account := range []string{"00-card:7", "01-card:9", "02-card:1"} {
		if left, err := cards.Remaining(ctx, account); err != nil || left[0].Limit != euros(200) {
			t.Errorf("%s: %+v, %v; want the limit of revision 2", account, left, err)
		}
		list, err := both.servers[i].Revisions(ctx, "cards", 0, 10)
		if all, _ := both.Revisions(ctx, "cards", 0, 10); err != nil || len(list) != 2 || string(list[0].Digest) != string(all[0].Digest) {
			t.Errorf("server %d has %d revisions, %v; want the two of the first", i, len(list), err)
		}
	}
	without := budget(3, 200)
	without.Plans = nil
	wants("a plan", true, nil)(cards.SetPlan(ctx, spend.PlanRequest{ID: "02-l", Account: "02-card:1", Plan: "gold"}))
	if err := cards.SetRules(ctx, without, nil); !errors.Is(err, spend.ErrBudget) {
		t.Errorf("a plan of an account on the last server: %v", err)
	}

	// A team on another server, each step of which may be the last.
	pay := spend.Request{ID: "01-m", Account: "01-card:9", Amount: euros(25)}
	for step, fails := range []error{store.ErrUnavailable, nil, nil} {
		second.err = fails
		d, err := chargeBoth(ctx, cards, of, pay, "00-sales")
		if wants(fmt.Sprint("step ", step), fails == nil, fails)(d, err); d.Replayed != (step == 2) {
			t.Errorf("step %d is replayed: %t", step, d.Replayed)
		}
	}
	pay.ID, pay.Amount = "01-n", euros(26)
	wants("more than the team has", false, nil)(chargeBoth(ctx, cards, of, pay, "00-sales"))
	wants("a big spend", true, nil)(charge("01-o", "01-card:9", 144))
	pay.ID, pay.Amount = "01-p", euros(5)
	wants("more than the card has", false, nil)(chargeBoth(ctx, cards, of, pay, "00-sales"))
	if left, err := of.Remaining(ctx, "00-sales"); err != nil || left[0].Used != euros(35) || left[0].Held != euros(0) {
		t.Errorf("the team: %+v, %v; want 35.00 used and nothing held", left, err)
	}

	// A program that has died before its last step is started again after the end of the hold.
	pay.ID, pay.Amount = "01-q", euros(4)
	wants("the team of it", true, nil)(of.Authorize(ctx, spend.Request{ID: "00-01-q", Account: "00-sales", Amount: pay.Amount, OnExpiry: spend.SpendOnExpiry}))
	now = now.Add(8 * 24 * time.Hour)
	wants("the charge of it", true, nil)(chargeBoth(ctx, cards, of, pay, "00-sales"))
	if left, err := of.Remaining(ctx, "00-sales"); err != nil || left[0].Used != euros(39) {
		t.Errorf("the team: %+v, %v; want 39.00 used", left, err)
	}

	var listed []string
	for after := ""; ; {
		keys, next, err := both.Accounts(ctx, "cards/", after, 0, 1)
		if listed = append(listed, keys...); err != nil || next == "" {
			break
		}
		after = next
	}
	if want := []string{"cards/00-card:7", "cards/01-card:9", "cards/02-card:1"}; !slices.Equal(listed, want) {
		t.Errorf("the accounts are %q; want %q", listed, want)
	}
	if _, err := cards.Prune(ctx); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("a Prune of all servers: %v", err)
	}
	for _, l := range both.servers {
		on := cards.With(l)
		if _, err := on.Prune(ctx); err != nil {
			t.Error(err)
		}
		if n, err := on.VerifyAll(ctx); err != nil || n != 1 {
			t.Errorf("%d accounts, %v; want a sound one", n, err)
		}
	}
}
