package spend_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"testing"
	"time"

	"github.com/brimgo/brim/internal/differ"
	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/store"
)

// TestFailingReads: a ledger that cannot read answers with its error alone, never with an approval,
// and stores nothing.
func TestFailingReads(t *testing.T) {
	for name, call := range calls {
		eachReadFails(t, name, busyAccount, call)
	}
	eachReadFails(t, "a refund that the rule has missed", func(t *testing.T) (*testLedger, *spend.Budgets) {
		l := newTestLedger(t)
		older := budgets(t, l, spend.Lifetime("ever", cents(1000)))
		newer := budgets(t, l, spend.Rolling("window", cents(100), day))
		charge(t, newer, "s", 60)
		l.now = l.now.Add(25 * time.Hour)
		refund(t, older, "s", 60)
		return l, newer
	}, calls["Charge"])
	eachReadFails(t, "a rule that is new to the account", func(t *testing.T) (*testLedger, *spend.Budgets) {
		l := newTestLedger(t)
		charge(t, budgets(t, l, spend.PerTransaction("single", cents(1000))), "only", 10)
		return l, budgets(t, l, spend.Lifetime("ever", cents(1000)))
	}, calls["Charge"])
	eachReadFails(t, "a raise that ends before another rule has room", func(t *testing.T) (*testLedger, *spend.Budgets) {
		l := newTestLedger(t)
		b := budgets(t, l,
			spend.Calendar("day", cents(100), spend.Day, time.UTC), spend.Rolling("window", cents(50), 2*day).AtMost(cents(200)),
		)
		setLimit(t, b, "1", spend.RuleLimit{Rule: "window", Amount: cents(200), Until: l.now.Add(time.Minute)})
		charge(t, b, "2", 60)
		return l, b
	}, func(ctx context.Context, b *spend.Budgets) (any, error) {
		return b.AbleToAccept(ctx, spend.Request{Account: "a", Amount: cents(50)})
	})
}

// eachReadFails lets each read of a call fail.
func eachReadFails(t *testing.T, name string, account func(*testing.T) (*testLedger, *spend.Budgets), call call) {
	t.Helper()
	broken := errors.New("broken")
	for fails := 1; ; fails++ {
		l, b := account(t)
		before := fmt.Sprint(l.entries(t))
		reads := l.failing(fails, broken)
		got, err := call(t.Context(), b)
		if *reads < fails {
			if err != nil || fails == 1 {
				t.Errorf("%s: %v after %d reads; want no error, and a read", name, err, *reads)
			}
			return
		}
		if !errors.Is(err, broken) || !reflect.ValueOf(got).IsZero() {
			t.Errorf("%s with a failure of read %d: %+v, %v; want the error alone", name, fails, got, err)
		}
		if after := fmt.Sprint(l.entries(t)); after != before {
			t.Errorf("%s with a failure of read %d has added entries: %s; want %s", name, fails, after, before)
		}
	}
}

// TestRepeatedJobs: a ledger may run a job again. The repetition decides as if it were the first.
func TestRepeatedJobs(t *testing.T) {
	for name, call := range calls {
		l, b := busyAccount(t)
		want, wantErr := call(t.Context(), b)
		wantEntries := fmt.Sprint(l.entries(t))
		l, b = busyAccount(t)
		got, err := call(t.Context(), b.With(&repeater{l}))
		if d := differ.Fields(got, want); d != "" || fmt.Sprint(err) != fmt.Sprint(wantErr) {
			t.Errorf("%s in a repeated transaction: %v, want %v\n%s", name, err, wantErr, d)
		}
		if got := fmt.Sprint(l.entries(t)); got != wantEntries {
			t.Errorf("%s in a repeated transaction left %s; want %s", name, got, wantEntries)
		}
	}
}

// repeater is a ledger that runs every job twice and drops the changes of the
// first run.
type repeater struct{ ledger.Ledger }

func (l *repeater) Decide(ctx context.Context, job *ledger.Job) error {
	if err := l.Ledger.View(ctx, job); err != nil {
		return err
	}
	return l.Ledger.Decide(ctx, job)
}

func (l *repeater) View(ctx context.Context, job *ledger.Job) error {
	if err := l.Ledger.View(ctx, job); err != nil {
		return err
	}
	return l.Ledger.View(ctx, job)
}

// A caller whose context ends gets no decision, although the ledger decides
// afterwards. The same request then returns that decision.
func TestContextEndsFirst(t *testing.T) {
	l := newTestLedger(t)
	_, b := everyRule(t, l)
	r := spend.Request{ID: "late", Account: "a", Amount: cents(100)}
	d, err := b.With(&leaver{l}).Charge(t.Context(), r)
	if !errors.Is(err, context.Canceled) || d.Approved {
		t.Fatalf("a call whose context ended: %+v, %v; want context.Canceled alone", d, err)
	}
	if d, err = b.Charge(t.Context(), r); err != nil || !d.Approved || !d.Replayed {
		t.Errorf("the retry: %+v, %v; want the first approval", d, err)
	}
}

// leaver is a ledger that decides, but reports that the context has ended.
type leaver struct{ ledger.Ledger }

func (l *leaver) Decide(ctx context.Context, job *ledger.Job) error {
	if err := l.Ledger.Decide(ctx, job); err != nil {
		return err
	}
	return context.Canceled
}

// A ledger that announces entries and returns none must not be read for ever.
func TestEndlessEntries(t *testing.T) {
	l, b := busyAccount(t)
	l.wrap = func(snap ledger.Snapshot) ledger.Snapshot { return &endless{snap} }
	if _, err := b.Remaining(t.Context(), "a"); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("Remaining over a ledger that returns no entries: %v; want ErrCorrupt", err)
	}
}

type endless struct{ ledger.Snapshot }

func (endless) Entries(_ string, after ledger.Place, _ int64, _ int) ([]ledger.Entry, ledger.Place, error) {
	return nil, after, nil
}

// A spend whose accounts could not be locked, also when the refund is tried again, is being
// authorized by another caller, or its accounts are being moved.
func TestSpendBeingAuthorized(t *testing.T) {
	l, b := busyAccount(t)
	l.wrap = func(snap ledger.Snapshot) ledger.Snapshot { return unlocked{snap} }
	if d, err := calls["Refund"](t.Context(), b); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("a refund of a spend that is not locked: %+v, %v; want ErrUnavailable", d, err)
	}
}

type unlocked struct{ ledger.Snapshot }

func (unlocked) Locked(string) bool { return false }

// listless is a ledger that fails to list entries and accounts.
type listless struct {
	ledger.Ledger
	err error
}

func (l *listless) History(context.Context, string, ledger.Position, int) ([]ledger.Entry, error) {
	return nil, l.err
}

func (l *listless) Accounts(context.Context, string, string, int64, int) ([]string, string, error) {
	return nil, "", l.err
}

func TestFailingLists(t *testing.T) {
	broken := errors.New("broken")
	l, b := busyAccount(t)
	b = b.With(&listless{l, broken})
	for name, list := range map[string]iter.Seq2[spend.Entry, error]{
		"History": b.History(t.Context(), "a", nil), "Export": b.Export(t.Context(), spend.Entry{}),
	} {
		n := 0
		for e, err := range list {
			if n++; n > 1 || !errors.Is(err, broken) || e.Seq != 0 {
				t.Errorf("%s over a broken ledger: %+v, %v; want its error once", name, e, err)
			}
		}
		if n != 1 {
			t.Errorf("%s over a broken ledger yielded %d times; want once", name, n)
		}
	}
	if done, err := b.Prune(t.Context()); !errors.Is(err, broken) || done != (spend.PruneResult{}) {
		t.Errorf("Prune over a broken ledger: %+v, %v; want its error", done, err)
	}
}

// keeper is a ledger that fails to remove requests.
type keeper struct {
	ledger.Ledger
	err error
}

func (l *keeper) PruneRequests(context.Context, string, int64) (int64, error) { return 0, l.err }

// TestPruneInPart: after an error, Prune reports the part that was done.
func TestPruneInPart(t *testing.T) {
	broken := errors.New("broken")
	l, b := busyAccount(t)
	want := spend.PruneResult{Expired: 1}
	if done, err := b.With(&keeper{l, broken}).Prune(t.Context()); !errors.Is(err, broken) || done != want {
		t.Errorf("Prune that cannot remove IDs: %+v, %v; want %+v and its error", done, err, want)
	}
}

// TestHistoryStops: a caller may leave a history after any entry.
func TestHistoryStops(t *testing.T) {
	_, b := busyAccount(t)
	for _, err := range b.History(t.Context(), "a", nil) {
		if err != nil {
			t.Error(err)
		}
		break
	}
}

// unsure is a ledger that decides and then cannot tell the outcome.
type unsure struct{ ledger.Ledger }

func (l unsure) DecideAll(ctx context.Context, jobs []*ledger.Job) []error {
	errs := l.Ledger.DecideAll(ctx, jobs)
	errs[0] = store.ErrUnknownOutcome
	return errs
}

// TestChargeAllUnsure: a request without an outcome has no decision.
func TestChargeAllUnsure(t *testing.T) {
	l, b := busyAccount(t)
	answers := b.With(unsure{l}).ChargeAll(t.Context(), []spend.Request{
		{ID: "x1", Account: "x", Amount: cents(1)}, {ID: "x2", Account: "x", Amount: cents(1)},
	})
	if !errors.Is(answers[0].Err, store.ErrUnknownOutcome) || answers[0].Decision.Approved || !answers[0].Decision.At.IsZero() {
		t.Errorf("a request without an outcome got %+v", answers[0])
	}
	if answers[1].Err != nil || !answers[1].Decision.Approved {
		t.Errorf("the other got %+v", answers[1])
	}
}
