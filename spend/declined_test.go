package spend_test

import (
	"context"
	"testing"
	"time"

	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/spend/memledger"
)

// told is a ledger that keeps whether the last decision told it that it refuses something.
type told struct {
	ledger.Ledger
	declined bool
}

func (l *told) Decide(ctx context.Context, job *ledger.Job) error {
	noted := *job
	noted.Run = func(s ledger.Snapshot) (*ledger.Changes, error) {
		c, err := job.Run(s)
		l.declined = c != nil && c.Declined
		return c, err
	}
	return l.Ledger.Decide(ctx, &noted)
}

// TestLedgerIsTold: a decision tells the ledger whether it refuses the request or a part of it.
func TestLedgerIsTold(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(context.Context, *spend.Budgets) (spend.Decision, error)
		want bool
		why  string
	}{
		{"a charge that fits", func(ctx context.Context, b *spend.Budgets) (spend.Decision, error) {
			return b.Charge(ctx, spend.Request{ID: "1", Account: "a", Amount: cents(10)})
		}, false, "nothing is refused"},
		{"a charge that does not fit", func(ctx context.Context, b *spend.Budgets) (spend.Decision, error) {
			return b.Charge(ctx, spend.Request{ID: "1", Account: "a", Amount: cents(11)})
		}, true, "its caller comes back later"},
		{"all of an amount", func(ctx context.Context, b *spend.Budgets) (spend.Decision, error) {
			return b.UpTo(ctx, spend.UpToRequest{Request: spend.Request{ID: "1", Account: "a", Amount: cents(10)}, Least: cents(1)})
		}, false, "nothing is refused"},
		{"a part of an amount", func(ctx context.Context, b *spend.Budgets) (spend.Decision, error) {
			return b.UpTo(ctx, spend.UpToRequest{Request: spend.Request{ID: "1", Account: "a", Amount: cents(11)}, Least: cents(1)})
		}, true, "the rest may fit by a later clock"},
		{"a freeze", func(ctx context.Context, b *spend.Budgets) (spend.Decision, error) {
			return b.Freeze(ctx, spend.FreezeRequest{ID: "1", Account: "a", Reason: "lost"})
		}, false, "it moves no money"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := &told{Ledger: memledger.New(nil)}
			b, err := spend.New(l, spend.Budget{Name: "cards", Currency: "EUR", Rules: []spend.Rule{
				spend.Rolling("hour", cents(10), time.Hour),
			}}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := c.do(t.Context(), b); err != nil {
				t.Fatal(err)
			}
			if l.declined != c.want {
				t.Errorf("Declined is %t, want %t\nwhy: %s", l.declined, c.want, c.why)
			}
		})
	}
}
