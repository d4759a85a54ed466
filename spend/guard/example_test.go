package guard_test

import (
	"context"
	"fmt"
	"time"

	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/guard"
	"github.com/brimgo/brim/spend/memledger"
)

// A call of a language model costs at most 50 cents, and how much is known only while it streams.
// The tokens are paid before they go to the client.
func Example() {
	usd := func(cents int64) spend.Money { return spend.Money{Minor: cents, Currency: "USD"} }
	budget, err := spend.New(memledger.New(nil), spend.Budget{
		Name: "calls", Currency: "USD", Rules: []spend.Rule{spend.Rolling("day", usd(10_00), 24*time.Hour)},
	}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	most := spend.Request{ID: "call-1", Account: "user:7", Amount: usd(50), TTL: 30 * time.Second}
	_, err = guard.Run(ctx, budget, spend.UpToRequest{Request: most}, func(_ context.Context, m *guard.Meter) error {
		for _, part := range []string{"Once", " upon", " a time"} {
			if err := m.Use(usd(int64(len(part)))); err != nil {
				return err
			}
			fmt.Print(part)
		}
		fmt.Println()
		return nil
	})
	left, err2 := budget.Remaining(ctx, "user:7")
	fmt.Println(left[0].Used, "used,", left[0].Held, "held,", err, err2)
	// Output:
	// Once upon a time
	// 0.16 USD used, 0.00 USD held, <nil> <nil>
}
