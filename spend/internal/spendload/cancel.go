package spendload

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/ledger"
)

// Cancels returns Budgets for requests that are canceled.
func Cancels(ctx context.Context, l ledger.Ledger) (*spend.Budgets, error) {
	return spend.New(ctx, l, spend.Budget{Name: "canceled", Currency: "EUR", Rules: []spend.Rule{
		spend.Lifetime("ever", spend.Money{Minor: 1 << 40, Currency: "EUR"}),
	}}, nil)
}

// Authorization is request n of a round.
func Authorization(round, n int) spend.Request {
	return spend.Request{
		ID: fmt.Sprintf("%d/%d", round, n), Account: fmt.Sprint("card:", n%4), Amount: spend.Money{Minor: 100, Currency: "EUR"},
		Also: []spend.Account{{Budget: "canceled", Name: fmt.Sprint("team:", n%2)}},
	}
}

// Authorizers are the callers of [AuthorizeUntilKilled].
const Authorizers = 16

// AuthorizeUntilKilled sends the requests of a round until the process is killed, and prints the
// number of each before. Some callers cancel theirs, and print the number below 0 after that.
func AuthorizeUntilKilled(b *spend.Budgets, round int, cancels bool) {
	for i := range Authorizers {
		go func() {
			for n := i + 1; ; n += Authorizers {
				fmt.Printf("%-1023d\n", n) // a pipe holds few of them, so the process is not far ahead
				request := Authorization(round, n)
				_, err := b.Authorize(context.Background(), request)
				if cancels && i%2 == 0 && err == nil {
					_, err = b.Cancel(context.Background(), request.ID, request.Account)
					fmt.Printf("%-1023d\n", -n)
				}
				if err != nil {
					fmt.Println("error:", err)
					os.Exit(1)
				}
			}
		}()
	}
	select {}
}

// Undone tests that canceled requests hold and spend nothing, and that none had two effects.
func Undone(t *testing.T, b *spend.Budgets) {
	t.Helper()
	held := make(map[string]int64)
	for e, err := range b.Export(t.Context(), spend.Entry{}) {
		if err != nil {
			t.Fatal(err)
		}
		if held[e.Name+" "+e.SpendID] += max(0, e.Held.Minor); held[e.Name+" "+e.SpendID] > 100 {
			t.Fatalf("request %s had two effects", e.RequestID)
		}
	}
	for _, account := range []string{"card:0", "card:1", "card:2", "card:3", "team:0", "team:1"} {
		list, err := b.Remaining(t.Context(), account)
		if err != nil || list[0].Held.Minor != 0 || list[0].Used.Minor != 0 {
			t.Errorf("account %s: %+v, %v; want that nothing is held or used", account, list, err)
		}
		if err := b.Verify(t.Context(), account); err != nil {
			t.Error(err)
		}
	}
}
