package spend_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/store"
)

// opened returns the budgets of another process.
func opened(t *testing.T, l ledger.Ledger, o *spend.Options) *spend.Budgets {
	t.Helper()
	b, err := spend.Open(t.Context(), l, "cards", o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// revision returns rules of budget cards.
func revision(n int64, rules ...spend.Rule) spend.Budget {
	return spend.Budget{Name: "cards", Currency: "EUR", Revision: n, Rules: rules}
}

func set(t *testing.T, b *spend.Budgets, r spend.Budget, o *spend.SetRulesOptions) {
	t.Helper()
	if err := b.SetRules(t.Context(), r, o); err != nil {
		t.Fatal(err)
	}
}

func usedBy(t *testing.T, b *spend.Budgets, rule string) int64 {
	t.Helper()
	for _, u := range remaining(t, b, "a") {
		if u.Rule == rule {
			return u.Used.Minor
		}
	}
	t.Fatal("no rule ", rule)
	return 0
}

// TestCountOfBefore: figures that were counted beside a decision once are not used for a rule that
// was gone since, and counts none of the credits of then.
func TestCountOfBefore(t *testing.T) {
	beginningAt(t, 5)
	l := newTestLedger(t)
	one := spend.PerTransaction("one", cents(1000))
	year := spend.Calendar("year", cents(10000), spend.Year, time.UTC).CountsCredits()
	b, err := spend.New(t.Context(), l, revision(0, one), nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		charge(t, b, fmt.Sprint("c", i), 100)
	}
	set(t, b, revision(1, one, year), nil)
	charge(t, b, "x", 1)
	credit(t, b, "credit", 500)
	set(t, b, revision(2, one), nil)
	charge(t, b, "y", 1)
	set(t, b, revision(3, one, year), nil)
	fresh, stale := usedBy(t, opened(t, l, nil), "year"), usedBy(t, b, "year")
	if fresh != stale {
		t.Errorf("a process that has a count of before says %d used, another one %d", stale, fresh)
	}
}

// TestCountOfAnotherAccount: figures that were counted for an account are not those of another one
// that gets its name.
func TestCountOfAnotherAccount(t *testing.T) {
	beginningAt(t, 5)
	l := newTestLedger(t)
	o := &spend.Options{HoldTTL: time.Hour, KeepIDs: time.Hour}
	one := spend.PerTransaction("one", cents(1000))
	week := spend.Rolling("week", cents(1000), 7*day)
	long := spend.Rolling("long", cents(1<<30), 60*day) // so that entries stay
	b, err := spend.New(t.Context(), l, revision(0, one, long), o)
	if err != nil {
		t.Fatal(err)
	}
	ch := func(account, id string, n int64) {
		t.Helper()
		d, err := b.Charge(t.Context(), spend.Request{ID: id, Account: account, Amount: cents(n)})
		if err != nil || !d.Approved {
			t.Fatalf("%+v, %v", d.Declines, err)
		}
	}
	for i := range 10 {
		ch("a", fmt.Sprint("a", i), 1)
		ch("b", fmt.Sprint("b", i), 100)
	}
	l.now = l.now.Add(time.Second)
	set(t, b, revision(1, one, long, week), nil)
	ch("a", "counted", 1) // a count is kept under a
	set(t, b, revision(2, one, long), nil)
	move := func(id, from, to string) {
		t.Helper()
		approve(t)(b.MoveAccount(t.Context(), spend.MoveRequest{ID: id, Account: from, To: to, Reason: "lost"}))
	}
	move("m1", "a", "z")
	l.now = l.now.Add(2 * time.Hour)
	prune(t, b)
	move("m2", "b", "a") // another account has the key
	set(t, b, revision(3, one, long, week), nil)
	fresh, stale := usedBy(t, opened(t, l, o), "week"), usedBy(t, b, "week")
	if fresh != stale {
		t.Errorf("week: a process that has a count of the account that had the key before says %d used; another one %d", stale, fresh)
	}
	d, err := b.Charge(t.Context(), spend.Request{ID: "over", Account: "a", Amount: cents(900)})
	if err != nil || d.Approved {
		t.Errorf("900 more than the 1000 of the week: approved %v, %v", d.Approved, err)
	}
}

// TestManyAccountsBegin: a decision counts the entries of all of its accounts for a new rule.
func TestManyAccountsBegin(t *testing.T) {
	beginningAt(t, 1)
	l := newTestLedger(t)
	one := spend.PerTransaction("one", cents(1000))
	b, err := spend.New(t.Context(), l, revision(0, one), nil)
	if err != nil {
		t.Fatal(err)
	}
	r := spend.Request{Account: "a", Amount: cents(1)}
	for i := range 15 {
		r.Also = append(r.Also, spend.Account{Budget: "cards", Name: fmt.Sprint("b", i)})
	}
	for i := range 3 {
		r.ID = fmt.Sprint(i)
		approve(t)(b.Charge(t.Context(), r))
	}
	set(t, b, revision(1, one, spend.Rolling("week", cents(1000), 7*day)), nil)
	r.ID = "x"
	if d, err := b.Charge(t.Context(), r); err != nil || !d.Approved {
		t.Errorf("%+v, %v", d, err)
	}
}

// hooked is a ledger that calls a function after the first decision about no account, which stores
// rules.
type hooked struct {
	ledger.Ledger
	after func()
}

func (l *hooked) Decide(ctx context.Context, job *ledger.Job) error {
	err := l.Ledger.Decide(ctx, job)
	if f := l.after; f != nil && len(job.Accounts) == 0 {
		l.after = nil
		f()
	}
	return err
}

// TestMoveWhileRulesWarmUp: an account that moves between the count and its use leaves no account
// under its old name.
func TestMoveWhileRulesWarmUp(t *testing.T) {
	beginningAt(t, 5)
	l := &hooked{Ledger: newTestLedger(t)}
	one := spend.PerTransaction("one", cents(1000))
	b, err := spend.New(t.Context(), l, revision(0, one), nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		charge(t, b, fmt.Sprint("c", i), 100)
	}
	l.after = func() {
		approve(t)(b.MoveAccount(t.Context(), spend.MoveRequest{ID: "m", Account: "a", To: "z", Reason: "lost"}))
	}
	set(t, b, revision(1, one, spend.Rolling("week", cents(2000), 7*day)), &spend.SetRulesOptions{WarmUp: true})
	d, err := b.Charge(t.Context(), spend.Request{ID: "c0", Account: "a", Amount: cents(100)})
	if err != nil || !d.Replayed {
		t.Errorf("a retry of a charge by the old name: %+v, %v", d, err)
	}
	if _, err := b.MoveAccount(t.Context(), spend.MoveRequest{ID: "back", Account: "z", To: "a", Reason: "found"}); err != nil {
		t.Errorf("moving back: %v", err)
	}
	n, err := b.VerifyAll(t.Context())
	if n != 1 || err != nil {
		t.Errorf("%d accounts, %v; want 1", n, err)
	}
}

// TestOwnLimitOfAnotherUnit: an account's own limit of money does not hold for a rule of the same
// name that counts spends, also if revisions in between had none.
func TestOwnLimitOfAnotherUnit(t *testing.T) {
	l := newTestLedger(t)
	b, err := spend.New(t.Context(), l, revision(0, spend.Rolling("x", cents(10000), day)), nil)
	if err != nil {
		t.Fatal(err)
	}
	setLimit(t, b, "l", spend.RuleLimit{Rule: "x", Amount: cents(5000)})
	count := spend.Count("x", 3, day).AtMost(spend.Money{Minor: 100})
	if err := b.SetRules(t.Context(), revision(1, count), nil); !errors.Is(err, spend.ErrBudget) {
		t.Fatal(err)
	}
	set(t, b, revision(1, spend.PerTransaction("one", cents(1000))), nil)
	set(t, b, revision(2, count), nil)
	for i := range 4 {
		d, err := b.Charge(t.Context(), spend.Request{ID: fmt.Sprint(i), Account: "a", Amount: cents(1)})
		if err != nil || d.Approved != (i < 3) {
			t.Errorf("charge %d of 3: approved %v, %v; %+v", i+1, d.Approved, err, d.Remaining)
		}
	}
}

// TestUnitOfARefund: a refund means the same in a process that has not read the budget of its
// spend.
func TestUnitOfARefund(t *testing.T) {
	l := newTestLedger(t)
	usd := func(n int64) spend.Money { return spend.Money{Minor: n, Currency: "USD"} }
	team := spend.Budget{Name: "team", Currency: "USD:4", Rules: []spend.Rule{spend.Lifetime("ever", usd(100000))}}
	a, err := spend.New(t.Context(), l, revision(0, spend.PerTransaction("one", cents(1000))), &spend.Options{Budgets: []spend.Budget{team}})
	if err != nil {
		t.Fatal(err)
	}
	of, err := a.ForBudget(t.Context(), "team")
	if err != nil {
		t.Fatal(err)
	}
	approve(t)(of.Charge(t.Context(), spend.Request{ID: "s", Account: "x", Amount: usd(1000)}))
	approve(t)(a.Refund(t.Context(), spend.RefundRequest{ID: "r", SpendID: "s", Amount: usd(500)}))
	b := opened(t, l, nil) // another process
	if d, err := b.Refund(t.Context(), spend.RefundRequest{ID: "r", SpendID: "s", Amount: usd(500)}); err != nil || !d.Replayed {
		t.Errorf("the same refund in another process: %v", err)
	}
	if _, err := b.Refund(t.Context(), spend.RefundRequest{ID: "r2", SpendID: "s", Amount: usd(100)}); err != nil {
		t.Errorf("another refund in another process: %v", err)
	}
}

// silent is a ledger whose connection breaks after the first decision.
type silent struct {
	ledger.Ledger
	broken bool
}

func (l *silent) Decide(ctx context.Context, job *ledger.Job) error {
	err := l.Ledger.Decide(ctx, job)
	l.broken = true
	return err
}

func (l *silent) View(ctx context.Context, job *ledger.Job) error {
	if l.broken {
		return store.ErrUnavailable
	}
	return l.Ledger.View(ctx, job)
}

// TestRulesAreStored: rules that are stored are no failure, also if the connection breaks then, and
// the next decision reads them.
func TestRulesAreStored(t *testing.T) {
	l := &silent{Ledger: newTestLedger(t)}
	b, err := spend.New(t.Context(), l, revision(1, spend.PerTransaction("one", cents(5))), nil)
	if err != nil {
		t.Fatal(err)
	}
	l.broken = false
	set(t, b, revision(2, spend.PerTransaction("one", cents(7))), &spend.SetRulesOptions{WarmUp: true})
	l.broken = false
	charge(t, b, "1", 7)
}
