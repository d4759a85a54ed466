package spendload

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/ledger"
)

// Movers returns the budgets of [MoveUntilKilled].
func Movers(ctx context.Context, l ledger.Ledger) (*spend.Budgets, error) {
	return spend.New(ctx, l, spend.Budget{Name: "moves", Currency: "EUR", Rules: []spend.Rule{spend.Lifetime("ever", euros(1_000_000))}}, nil)
}

// MoveUntilKilled charges the account card from several goroutines, by 1, and one of them gives it
// a new name after each charge. It prints a line for each answer: c for a charge, and m with the
// number of the name.
func MoveUntilKilled(b *spend.Budgets, round int) {
	ctx := context.Background()
	done := func(err error, answer ...any) {
		if err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		fmt.Println(answer...)
	}
	var wg sync.WaitGroup
	for racer := range 8 {
		wg.Go(func() {
			for n := round << 20; ; n++ {
				_, err := b.Charge(ctx, spend.Request{ID: fmt.Sprint("charge ", racer, " ", n), Account: "card", Amount: euros(1)})
				if done(err, "c"); racer > 0 {
					continue
				}
				r := spend.MoveRequest{ID: fmt.Sprint("move ", n), Account: "card", To: fmt.Sprint("card ", n), Reason: "replaced"}
				_, err = b.MoveAccount(ctx, r)
				done(err, "m", n)
			}
		})
	}
	wg.Wait()
}

// Moved checks that the ledger has one account, whose name is that of the last answered move or of
// a later one, and that it counts all answered charges.
func Moved(t *testing.T, l ledger.Ledger, b *spend.Budgets, charges int64, move int) {
	t.Helper()
	ctx := context.Background()
	keys, _, err := l.Accounts(ctx, "moves/", "", 0, 10)
	if err != nil || len(keys) != 1 {
		t.Fatalf("the ledger has the accounts %q, %v; want one", keys, err)
	}
	var n int
	if _, err := fmt.Sscanf(keys[0], "moves/card %d", &n); n < move || err != nil && move > 0 {
		t.Errorf("the account is %q; want card %d, or a later name", keys[0], move)
	}
	for _, name := range []string{"card", keys[0][len("moves/"):]} {
		list, err := b.Remaining(ctx, name)
		if err != nil || list[0].Used.Minor < charges || "moves/"+list[0].Account.Name != keys[0] {
			t.Errorf("%s has %+v, %v; want at least %d used by %s", name, list, err, charges, keys[0])
		}
		if err := b.Verify(ctx, name); err != nil {
			t.Error(err)
		}
	}
}
