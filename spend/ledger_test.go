package spend_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/spend/memledger"
	"github.com/brimgo/brim/spend/spendtest"
)

// TestDecisions runs the conformance suite over the plainest ledger.
func TestDecisions(t *testing.T) {
	h := spendtest.Harness{New: func(_ testing.TB, clock func() time.Time) ledger.Ledger {
		return memledger.New(&memledger.Options{Clock: clock})
	}}
	spendtest.Run(t, h)
	spendtest.Random(t, h, 100)
}

const day = 24 * time.Hour

func cents(n int64) spend.Money { return spend.Money{Minor: n, Currency: "EUR"} }

// testLedger is a ledger in memory with a clock that a test moves. If wrap is
// set, jobs see the snapshots that it returns.
type testLedger struct {
	ledger.Ledger
	now    time.Time
	wrap   func(ledger.Snapshot) ledger.Snapshot
	viewed func() // called after each View
}

func newTestLedger(t *testing.T) *testLedger {
	t.Helper()
	l := &testLedger{now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	l.Ledger = memledger.New(&memledger.Options{Clock: func() time.Time { return l.now }})
	return l
}

func (l *testLedger) wrapped(job *ledger.Job) *ledger.Job {
	if l.wrap == nil {
		return job
	}
	other := *job
	other.Run = func(snap ledger.Snapshot) (*ledger.Changes, error) { return job.Run(l.wrap(snap)) }
	return &other
}

func (l *testLedger) Decide(ctx context.Context, job *ledger.Job) error {
	return l.Ledger.Decide(ctx, l.wrapped(job))
}

func (l *testLedger) View(ctx context.Context, job *ledger.Job) error {
	if l.viewed != nil {
		defer l.viewed()
	}
	return l.Ledger.View(ctx, l.wrapped(job))
}

// snapshot is a Snapshot whose results a test replaces. A nil function changes
// nothing.
type snapshot struct {
	ledger.Snapshot
	account func(ledger.Account) ledger.Account
	request func(*ledger.Request)
	since   func([]ledger.Entry) []ledger.Entry
	read    func() error // called before each read
}

func (s *snapshot) before() error {
	if s.read == nil {
		return nil
	}
	return s.read()
}

func (s *snapshot) Account(key string) (ledger.Account, error) {
	if err := s.before(); err != nil {
		return ledger.Account{}, err
	}
	a, err := s.Snapshot.Account(key)
	if s.account != nil {
		a = s.account(a)
	}
	return a, err
}

func (s *snapshot) Request(id string) (*ledger.Request, error) {
	if err := s.before(); err != nil {
		return nil, err
	}
	r, err := s.Snapshot.Request(id)
	if s.request != nil && r != nil {
		changed := *r
		s.request(&changed)
		r = &changed
	}
	return r, err
}

func (s *snapshot) Entries(account string, after, upto int64, limit int) ([]ledger.Entry, int64, error) {
	if err := s.before(); err != nil {
		return nil, 0, err
	}
	return s.Snapshot.Entries(account, after, upto, limit)
}

func (s *snapshot) Since(account string, after ledger.Position, limit int) ([]ledger.Entry, error) {
	if err := s.before(); err != nil {
		return nil, err
	}
	entries, err := s.Snapshot.Since(account, after, limit)
	if s.since != nil {
		entries = s.since(slices.Clone(entries))
	}
	return entries, err
}

func (s *snapshot) Holds(account string, upto int64, limit int) ([]ledger.Request, int64, error) {
	if err := s.before(); err != nil {
		return nil, 0, err
	}
	held, next, err := s.Snapshot.Holds(account, upto, limit)
	if s.request != nil {
		for i := range held {
			s.request(&held[i])
		}
	}
	return held, next, err
}

// everyRule returns budgets with a rule of every kind. The older budgets lack
// the first two rules.
func everyRule(t *testing.T, l ledger.Ledger) (older, newer *spend.Budgets) {
	t.Helper()
	rules := []spend.Rule{
		spend.Rolling("window", cents(1000), 2*day),
		spend.Leaky("leaky", cents(1024), 1024*time.Second),
		spend.Calendar("day", cents(1000), spend.Day, time.UTC),
		spend.Count("often", 5, 2*day),
		spend.Lifetime("ever", cents(5000)),
		spend.PerTransaction("single", cents(1000)),
	}
	var list []*spend.Budgets
	for _, rules := range [][]spend.Rule{rules[2:], rules} {
		b, err := spend.New(l, spend.Budget{Name: "cards", Currency: "EUR", Rules: rules}, nil)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, b)
	}
	return list[0], list[1]
}

// busyAccount fills an account of a new ledger with an expired hold, an open
// hold, a spend, and a spend that the newer budgets have not counted yet.
func busyAccount(t *testing.T) (*testLedger, *spend.Budgets) {
	t.Helper()
	l := newTestLedger(t)
	older, newer := everyRule(t, l)
	for _, r := range []struct {
		call func(context.Context, spend.Request) (spend.Decision, error)
		req  spend.Request
	}{
		{newer.Authorize, spend.Request{ID: "expired", Account: "a", Amount: cents(100), TTL: time.Hour}},
		{newer.Authorize, spend.Request{ID: "open", Account: "a", Amount: cents(100), TTL: 9 * day}},
		{newer.Charge, spend.Request{ID: "spent", Account: "a", Amount: cents(100)}},
		{older.Charge, spend.Request{ID: "missed", Account: "a", Amount: cents(100)}},
	} {
		if d, err := r.call(t.Context(), r.req); err != nil || !d.Approved {
			t.Fatalf("%s: %+v, %v", r.req.ID, d, err)
		}
	}
	l.now = l.now.Add(day)
	return l, newer
}

var calls = map[string]func(context.Context, *spend.Budgets) (spend.Decision, error){
	"Charge": func(ctx context.Context, b *spend.Budgets) (spend.Decision, error) {
		return b.Charge(ctx, spend.Request{ID: "new", Account: "a", Amount: cents(1)})
	},
	"Charge, declined": func(ctx context.Context, b *spend.Budgets) (spend.Decision, error) {
		return b.Charge(ctx, spend.Request{ID: "new", Account: "a", Amount: cents(960)})
	},
	"Charge, replayed": func(ctx context.Context, b *spend.Budgets) (spend.Decision, error) {
		return b.Charge(ctx, spend.Request{ID: "spent", Account: "a", Amount: cents(100)})
	},
	"Increase": func(ctx context.Context, b *spend.Budgets) (spend.Decision, error) {
		return b.Increase(ctx, spend.IncreaseRequest{ID: "new", HoldID: "open", Amount: cents(1)})
	},
	"Capture": func(ctx context.Context, b *spend.Budgets) (spend.Decision, error) {
		return b.Capture(ctx, spend.CaptureRequest{ID: "new", HoldID: "open", Amount: cents(50), Final: true})
	},
	"Void": func(ctx context.Context, b *spend.Budgets) (spend.Decision, error) {
		return b.Void(ctx, spend.VoidRequest{ID: "new", HoldID: "open"})
	},
	"Refund": func(ctx context.Context, b *spend.Budgets) (spend.Decision, error) {
		return b.Refund(ctx, spend.RefundRequest{ID: "new", SpendID: "spent", Amount: cents(1)})
	},
	"AbleToAccept": func(ctx context.Context, b *spend.Budgets) (spend.Decision, error) {
		return b.AbleToAccept(ctx, spend.Request{Account: "a", Amount: cents(960)})
	},
	"Remaining": func(ctx context.Context, b *spend.Budgets) (spend.Decision, error) {
		list, err := b.Remaining(ctx, "a")
		if err != nil && list != nil {
			return spend.Decision{Remaining: list}, err
		}
		return spend.Decision{}, err
	},
	"Verify": func(ctx context.Context, b *spend.Budgets) (spend.Decision, error) {
		return spend.Decision{}, b.Verify(ctx, "a")
	},
	"Prune": func(ctx context.Context, b *spend.Budgets) (spend.Decision, error) {
		_, err := b.Prune(ctx)
		return spend.Decision{}, err
	},
}

// entries returns the entries of the busy account.
func (l *testLedger) entries(t *testing.T) []ledger.Entry {
	t.Helper()
	entries, err := l.Ledger.History(t.Context(), "cards/a", ledger.Position{}, 100)
	if err != nil {
		t.Fatal(err)
	}
	return entries
}
