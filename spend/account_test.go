package spend_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/ledger"
)

const day = 24 * time.Hour

func cents(n int64) spend.Money { return spend.Money{Minor: n, Currency: "EUR"} }

// budgets returns budgets called cards with these rules, which are in force from then on.
func budgets(t *testing.T, l ledger.Ledger, rules ...spend.Rule) *spend.Budgets {
	t.Helper()
	return revised(t, l, spend.Budget{Name: "cards", Currency: "EUR", Rules: rules}, &spend.Options{KeepIDs: 90 * day})
}

// revised returns budgets with rules in a new revision, unless they are the newest.
func revised(t *testing.T, l ledger.Ledger, b spend.Budget, o *spend.Options) *spend.Budgets {
	t.Helper()
	b.Retired = []string{"ever", "each", "leaky", "slow", "l", "old", "net", "lifetime"}
	if newest, err := l.Revisions(t.Context(), b.Name, 0, 1); err != nil {
		t.Fatal(err)
	} else if len(newest) > 0 {
		b.Revision = newest[0].Revision
	}
	budgets, err := spend.New(t.Context(), l, b, o)
	if errors.Is(err, spend.ErrBudget) {
		b.Revision++
		budgets, err = spend.New(t.Context(), l, b, o)
	}
	if err != nil {
		t.Fatal(err)
	}
	return budgets
}

// approve returns a function that takes the answer to a request, and fails the test unless the
// request was approved.
func approve(t *testing.T) func(spend.Decision, error) spend.Decision {
	return func(d spend.Decision, err error) spend.Decision {
		t.Helper()
		if err != nil || !d.Approved {
			t.Fatalf("%+v, %v; want an approval", d, err)
		}
		return d
	}
}

// These functions send requests about account a, which must be approved.

func charge(t *testing.T, b *spend.Budgets, id string, n int64) {
	t.Helper()
	approve(t)(b.Charge(t.Context(), spend.Request{ID: id, Account: "a", Amount: cents(n)}))
}

func hold(t *testing.T, b *spend.Budgets, id string, n int64, ttl time.Duration) {
	t.Helper()
	approve(t)(b.Authorize(t.Context(), spend.Request{ID: id, Account: "a", Amount: cents(n), TTL: ttl}))
}

func record(t *testing.T, b *spend.Budgets, id string, n int64) {
	t.Helper()
	approve(t)(b.Record(t.Context(), spend.Request{ID: id, Account: "a", Amount: cents(n)}))
}

func credit(t *testing.T, b *spend.Budgets, id string, n int64) {
	t.Helper()
	approve(t)(b.Credit(t.Context(), spend.Request{ID: id, Account: "a", Amount: cents(n)}))
}

func refund(t *testing.T, b *spend.Budgets, spendID string, n int64) {
	t.Helper()
	id := fmt.Sprint("refund of ", n, " of ", spendID)
	approve(t)(b.Refund(t.Context(), spend.RefundRequest{ID: id, SpendID: spendID, Amount: cents(n)}))
}

func increase(t *testing.T, b *spend.Budgets, holdID string, n int64) {
	t.Helper()
	approve(t)(b.Increase(t.Context(), spend.IncreaseRequest{ID: "increase of " + holdID, HoldID: holdID, Amount: cents(n)}))
}

func void(t *testing.T, b *spend.Budgets, holdID string) {
	t.Helper()
	approve(t)(b.Void(t.Context(), spend.VoidRequest{ID: "void of " + holdID, HoldID: holdID}))
}

func setLimit(t *testing.T, b *spend.Budgets, id string, limit spend.RuleLimit) {
	t.Helper()
	approve(t)(b.SetLimits(t.Context(), spend.LimitsRequest{ID: id, Account: "a", Limits: []spend.RuleLimit{limit}}))
}

func mend(t *testing.T, b *spend.Budgets, id string) {
	t.Helper()
	approve(t)(b.Mend(t.Context(), spend.FreezeRequest{ID: id, Account: "a", Reason: "the clock was ahead"}))
}

// capture sends a request about a hold, whose ID it makes.
func capture(t *testing.T, b *spend.Budgets, r spend.CaptureRequest) {
	t.Helper()
	r.ID = "capture of " + r.HoldID
	approve(t)(b.Capture(t.Context(), r))
}

func prune(t *testing.T, b *spend.Budgets) {
	t.Helper()
	if _, err := b.Prune(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// remaining returns the figures of an account.
func remaining(t *testing.T, b *spend.Budgets, account string) []spend.Usage {
	t.Helper()
	list, err := b.Remaining(t.Context(), account)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// used returns the used amount of the first rule in account a.
func used(t *testing.T, b *spend.Budgets) int64 {
	t.Helper()
	return remaining(t, b, "a")[0].Used.Minor
}

// figures compares the figures of the first rule of an account.
func figures(t *testing.T, b *spend.Budgets, account string, used, held int64) {
	t.Helper()
	if u := remaining(t, b, account)[0]; u.Used.Minor != used || u.Held.Minor != held {
		t.Errorf("account %s: %d used and %d held; want %d and %d", account, u.Used.Minor, u.Held.Minor, used, held)
	}
}

// sound wants account a to follow from its entries, and other accounts as well.
func sound(t *testing.T, b *spend.Budgets, others ...string) {
	t.Helper()
	for _, account := range append([]string{"a"}, others...) {
		if err := b.Verify(t.Context(), account); err != nil {
			t.Error(err)
		}
	}
}

// asked returns the answer to a charge of n cents that is only asked about.
func asked(t *testing.T, b *spend.Budgets, n int64) spend.Decision {
	t.Helper()
	d, err := b.AbleToAccept(t.Context(), spend.Request{Account: "a", Amount: cents(n)})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// wait returns the wait of n cents.
func wait(t *testing.T, b *spend.Budgets, n int64) time.Duration {
	t.Helper()
	d := asked(t, b, n)
	if d.Approved {
		t.Fatalf("%d cents: %+v; want a decline", n, d)
	}
	return d.RetryAfter
}

// lines returns the entries of an account, newest first.
func lines(t *testing.T, b *spend.Budgets, account string) (list []spend.Entry) {
	t.Helper()
	for e, err := range b.History(t.Context(), account, nil) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, e)
	}
	return list
}

// left returns the kinds of the entries that an account still has, newest first.
func left(t *testing.T, b *spend.Budgets, account string) string {
	t.Helper()
	var kinds []string
	for _, e := range lines(t, b, account) {
		kinds = append(kinds, e.Kind)
	}
	return fmt.Sprint(kinds)
}
