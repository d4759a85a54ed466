package spend_test

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/store"
)

// reads are calls that read an account or a request, as the busy account has it.
var reads = map[string]func(context.Context, *spend.Budgets) (any, error){
	"Get": func(ctx context.Context, b *spend.Budgets) (any, error) { return b.Get(ctx, "open") },
	"Holds": func(ctx context.Context, b *spend.Budgets) (any, error) {
		return b.Holds(ctx, "a")
	},
	"Limits": func(ctx context.Context, b *spend.Budgets) (any, error) {
		return b.Limits(ctx, "a")
	},
	"Remaining": func(ctx context.Context, b *spend.Budgets) (any, error) {
		return b.Remaining(ctx, "a")
	},
}

// readable returns budgets whose account has something to read for each of the reads.
func readable(t *testing.T) (*testLedger, *spend.Budgets) {
	t.Helper()
	l := newTestLedger(t)
	b := budgets(t, l, spend.Lifetime("ever", cents(1000)), spend.Rolling("shop", cents(1000), day).Per("shop"))
	hold(t, b, "open", 10, day)
	_, err := b.SetLimits(t.Context(), spend.LimitsRequest{ID: "l", Account: "a", Limits: []spend.RuleLimit{
		{Rule: "ever", Amount: cents(900)},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return l, b
}

// TestReadsFail: a read that the ledger cannot answer has the ledger's error and no result.
func TestReadsFail(t *testing.T) {
	broken := errors.New("broken")
	for name, read := range reads {
		for fails := 1; ; fails++ {
			l, b := readable(t)
			n := 0
			l.wrap = func(snap ledger.Snapshot) ledger.Snapshot {
				return &snapshot{Snapshot: snap, read: func() error {
					if n++; n == fails {
						return broken
					}
					return nil
				}}
			}
			got, err := read(t.Context(), b)
			if n < fails {
				if err != nil || fails == 1 {
					t.Errorf("%s: %v after %d reads; want a result and a read", name, err, n)
				}
				break
			}
			if !errors.Is(err, broken) || !reflect.ValueOf(got).IsZero() {
				t.Errorf("%s with a failure of read %d: %+v, %v; want the error alone", name, fails, got, err)
			}
		}
	}
}

// TestReadsAgain: a ledger may run a read twice. The result is that of one run.
func TestReadsAgain(t *testing.T) {
	for name, read := range reads {
		l, b := readable(t)
		want, err := read(t.Context(), b)
		if err != nil || reflect.ValueOf(want).IsZero() {
			t.Fatalf("%s: %+v, %v; want a result", name, want, err)
		}
		if got, err := read(t.Context(), b.With(&repeater{l})); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s, twice: %+v, %v; want %+v", name, got, err, want)
		}
	}
}

// TestGet tells the request, its answer and its spend.
func TestGet(t *testing.T) {
	l, b := readable(t)
	first, err := b.Charge(t.Context(), spend.Request{ID: "s", Account: "a", Amount: cents(1)})
	if err != nil {
		t.Fatal(err)
	}
	first.Replayed = true
	got, err := b.Get(t.Context(), "s")
	if err != nil || got.ID != "s" || !reflect.DeepEqual(got.Decision, first) || got.Spend.State != "charged" {
		t.Errorf("%+v, %v; want the ID and %+v", got, err, first)
	}
	// A damaged answer is no answer, also where the request began no spend.
	l.wrap = func(snap ledger.Snapshot) ledger.Snapshot {
		return &snapshot{Snapshot: snap, request: func(r *ledger.Request) { r.Answer = r.Answer[:len(r.Answer)-1] }}
	}
	for _, id := range []string{"s", "l"} {
		if got, err := b.Get(t.Context(), id); !errors.Is(err, store.ErrCorrupt) || got.ID != "" {
			t.Errorf("%s with a damaged answer: %+v, %v; want ErrCorrupt alone", id, got, err)
		}
	}
}

// TestHoldAtItsExpiry: a hold is open until its expiry, and has expired at that time.
func TestHoldAtItsExpiry(t *testing.T) {
	l := newTestLedger(t)
	b := budgets(t, l, spend.Lifetime("ever", cents(1000)))
	hold(t, b, "h", 10, time.Hour)
	hold(t, b, "later", 1, day)
	start := l.now
	for _, c := range []struct {
		after time.Duration
		state string
		held  int64
		open  int
	}{
		{time.Hour - time.Microsecond, "held", 10, 2},
		{time.Hour, "expired", 0, 1},
	} {
		l.now = start.Add(c.after)
		got, err := b.Get(t.Context(), "h")
		if err != nil || got.Spend.State != c.state || got.Spend.Held != cents(c.held) {
			t.Errorf("after %v: %+v, %v; want %s and %d cents held", c.after, got.Spend, err, c.state, c.held)
		}
		if open, err := b.Holds(t.Context(), "a"); err != nil || len(open) != c.open {
			t.Errorf("after %v: %+v, %v; want %d open holds", c.after, open, err, c.open)
		}
	}
}

// TestReplayedDeclines: a request that is sent again has the first decision, whichever rules and
// accounts refused it.
func TestReplayedDeclines(t *testing.T) {
	for _, c := range []struct {
		name   string
		frozen []string // accounts
		amount int64
		want   int // declines
	}{
		{"the first account is frozen", []string{"a"}, 1, 1},
		{"the second account is frozen", []string{"b"}, 1, 1},
		{"both accounts are frozen", []string{"a", "b"}, 1, 2},
		{"the second account is frozen, and rules refuse", []string{"b"}, 60, 3},
		{"a rule of each account refuses", nil, 60, 2},
		{"a rule of one account refuses", nil, 45, 1},
		{"all rules refuse", nil, 101, 4},
	} {
		l := newTestLedger(t)
		b := budgets(t, l, spend.Lifetime("ever", cents(100)), spend.Rolling("window", cents(50), day))
		hold(t, b, "h", 10, day)
		for _, account := range c.frozen {
			r := spend.FreezeRequest{ID: account, Account: account, Reason: "lost " + account}
			if _, err := b.Freeze(t.Context(), r); err != nil {
				t.Fatal(err)
			}
		}
		r := spend.Request{
			ID: "r", Account: "a", Amount: cents(c.amount), Also: []spend.Account{{Budget: "cards", Name: "b"}},
		}
		want, err := b.Charge(t.Context(), r)
		if err != nil || want.Approved || len(want.Declines) != c.want {
			t.Fatalf("%s: %+v, %v; want %d declines", c.name, want, err, c.want)
		}
		want.Replayed = true
		if got, err := b.Charge(t.Context(), r); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s, sent again:\n%+v, %v; want\n%+v", c.name, got, err, want)
		}
	}
}

// TestBadAccounts: the name of an account is checked before the ledger is asked.
func TestBadAccounts(t *testing.T) {
	b := newStrict(t)
	for _, account := range []string{"", "a\n", strings.Repeat("a", 600)} {
		for name, call := range map[string]func() (any, error){
			"Charge": func() (any, error) {
				return b.Charge(t.Context(), spend.Request{ID: "i", Account: account, Amount: cents(1)})
			},
			"Charge with another account": func() (any, error) {
				return b.Charge(t.Context(), spend.Request{
					ID: "i", Account: "a", Amount: cents(1), Also: []spend.Account{{Budget: "team", Name: account}},
				})
			},
			"Remaining": func() (any, error) { return b.Remaining(t.Context(), account) },
			"Holds":     func() (any, error) { return b.Holds(t.Context(), account) },
			"Limits":    func() (any, error) { return b.Limits(t.Context(), account) },
			"Freeze": func() (any, error) {
				return b.Freeze(t.Context(), spend.FreezeRequest{ID: "i", Account: account, Reason: "lost"})
			},
			"SetLimits": func() (any, error) {
				return b.SetLimits(t.Context(), spend.LimitsRequest{ID: "i", Account: account, Limits: []spend.RuleLimit{
					{Rule: "ever", Amount: cents(1)},
				}})
			},
		} {
			if got, err := call(); !errors.Is(err, spend.ErrRequest) || !reflect.ValueOf(got).IsZero() {
				t.Errorf("%s of %.10q: %+v, %v; want ErrRequest alone", name, account, got, err)
			}
		}
	}
}
