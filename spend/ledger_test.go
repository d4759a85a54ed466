package spend_test

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/spend/memledger"
)

// testLedger is a ledger in memory with a clock that a test moves. If wrap is
// set, jobs see the snapshots that it returns.
type testLedger struct {
	ledger.Ledger
	now     time.Time
	wrap    func(ledger.Snapshot) ledger.Snapshot
	changed func(*ledger.Changes) // changes what a decision stores
	viewed  func()                // called after each View
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
	if l.changed != nil {
		return l.Ledger.Decide(ctx, changing(l.wrapped(job), l.changed))
	}
	return l.Ledger.Decide(ctx, l.wrapped(job))
}

func (l *testLedger) View(ctx context.Context, job *ledger.Job) error {
	if l.viewed != nil {
		defer l.viewed()
	}
	return l.Ledger.View(ctx, l.wrapped(job))
}

// damage lets jobs see the entries of [ledger.Snapshot.Since] as change returns them.
func (l *testLedger) damage(change func([]ledger.Entry) []ledger.Entry) {
	l.wrap = func(snap ledger.Snapshot) ledger.Snapshot { return &snapshot{Snapshot: snap, since: change} }
}

// oneMore raises the used amount of the entries of a request.
func oneMore(requestID string) func([]ledger.Entry) []ledger.Entry {
	return func(list []ledger.Entry) []ledger.Entry {
		for i := range list {
			if list[i].RequestID == requestID {
				list[i].Used++
			}
		}
		return list
	}
}

// failing lets the n-th read from now on fail, and counts the reads.
func (l *testLedger) failing(n int, err error) (reads *int) {
	reads = new(int)
	l.wrap = func(snap ledger.Snapshot) ledger.Snapshot {
		return &snapshot{Snapshot: snap, read: func() error {
			if *reads++; *reads == n {
				return err
			}
			return nil
		}}
	}
	return reads
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

func (s *snapshot) Entries(account string, after ledger.Place, upto int64, limit int) ([]ledger.Entry, ledger.Place, error) {
	if err := s.before(); err != nil {
		return nil, after, err
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

func (s *snapshot) Holds(account string, after ledger.Hold, upto int64, limit int) ([]ledger.Held, int64, error) {
	if err := s.before(); err != nil {
		return nil, 0, err
	}
	held, next, err := s.Snapshot.Holds(account, after, upto, limit)
	if s.request != nil {
		for i := range held {
			s.request(&held[i].Request)
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
		spend.Rolling("shop", cents(1000), 2*day).Per("shop"),
	}
	return budgets(t, l, rules[2:]...), budgets(t, l, rules...)
}

// busyAccount fills an account of a new ledger with an expired hold, an open hold, a spend, and a
// spend and a limit that the newer budgets have not counted yet.
func busyAccount(t *testing.T) (*testLedger, *spend.Budgets) {
	t.Helper()
	l := newTestLedger(t)
	older, newer := everyRule(t, l)
	hold(t, newer, "expired", 100, time.Hour)
	hold(t, newer, "open", 100, 9*day)
	charge(t, newer, "spent", 100)
	charge(t, older, "missed", 100)
	setLimit(t, older, "limit", spend.RuleLimit{Rule: "ever", Amount: cents(4000)})
	l.now = l.now.Add(day)
	return l, newer
}

// call is a call about account a. After an error its result is a zero value.
type call func(context.Context, *spend.Budgets) (any, error)

// calls are calls of every kind about the busy account.
var calls = map[string]call{
	"Charge": func(ctx context.Context, b *spend.Budgets) (any, error) {
		return b.Charge(ctx, spend.Request{ID: "new", Account: "a", Amount: cents(1)})
	},
	"Charge, declined": func(ctx context.Context, b *spend.Budgets) (any, error) {
		return b.Charge(ctx, spend.Request{ID: "new", Account: "a", Amount: cents(960)})
	},
	"Charge, replayed": func(ctx context.Context, b *spend.Budgets) (any, error) {
		return b.Charge(ctx, spend.Request{ID: "spent", Account: "a", Amount: cents(100)})
	},
	"Increase": func(ctx context.Context, b *spend.Budgets) (any, error) {
		return b.Increase(ctx, spend.IncreaseRequest{ID: "new", HoldID: "open", Amount: cents(1)})
	},
	"Capture": func(ctx context.Context, b *spend.Budgets) (any, error) {
		return b.Capture(ctx, spend.CaptureRequest{ID: "new", HoldID: "open", Amount: cents(50), Final: true})
	},
	"Void": func(ctx context.Context, b *spend.Budgets) (any, error) {
		return b.Void(ctx, spend.VoidRequest{ID: "new", HoldID: "open"})
	},
	"Refund": func(ctx context.Context, b *spend.Budgets) (any, error) {
		return b.Refund(ctx, spend.RefundRequest{ID: "new", SpendID: "spent", Amount: cents(1)})
	},
	"AbleToAccept": func(ctx context.Context, b *spend.Budgets) (any, error) {
		return b.AbleToAccept(ctx, spend.Request{Account: "a", Amount: cents(960)})
	},
	"Remaining": func(ctx context.Context, b *spend.Budgets) (any, error) { return b.Remaining(ctx, "a") },
	"Get":       func(ctx context.Context, b *spend.Budgets) (any, error) { return b.Get(ctx, "open") },
	"Get, of no spend": func(ctx context.Context, b *spend.Budgets) (any, error) {
		return b.Get(ctx, "limit")
	},
	"Holds":  func(ctx context.Context, b *spend.Budgets) (any, error) { return collect(b.Holds(ctx, "a")) },
	"Limits": func(ctx context.Context, b *spend.Budgets) (any, error) { return b.Limits(ctx, "a") },
	"Verify": func(ctx context.Context, b *spend.Budgets) (any, error) { return 0, b.Verify(ctx, "a") },
	"Prune":  func(ctx context.Context, b *spend.Budgets) (any, error) { return b.Prune(ctx) },
}

// collect returns the items of a list before the first error, and that error.
func collect[T any](list iter.Seq2[T, error]) (all []T, err error) {
	for x, err := range list {
		if err != nil {
			return all, err
		}
		all = append(all, x)
	}
	return all, nil
}

// entries returns the entries of account a, newest first.
func (l *testLedger) entries(t *testing.T) []ledger.Entry {
	t.Helper()
	entries, err := l.Ledger.History(t.Context(), "cards/a", ledger.Position{}, 100)
	if err != nil {
		t.Fatal(err)
	}
	return entries
}

// parts returns the kind, the amount and the corrected part of each entry of account a.
func (l *testLedger) parts(t *testing.T) (list []string) {
	t.Helper()
	for _, e := range slices.Backward(l.entries(t)) {
		list = append(list, fmt.Sprint(e.Kind, " ", e.Amount, " of ", e.Part))
	}
	return list
}
