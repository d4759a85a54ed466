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
	ctx := context.Background()
	budget, err := spend.New(ctx, memledger.New(nil), spend.Budget{
		Name: "calls", Currency: "USD", Rules: []spend.Rule{spend.Rolling("day", usd(10_00), 24*time.Hour)},
	}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
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

// A call costs at most 50 cents, and its answer tells the cost. The answer goes out once it is
// paid, and the meter is closed whatever happens before.
func ExampleOpen() {
	usd := func(cents int64) spend.Money { return spend.Money{Minor: cents, Currency: "USD"} }
	budget, err := spend.New(context.Background(), memledger.New(nil), spend.Budget{
		Name: "calls", Currency: "USD", Rules: []spend.Rule{spend.Rolling("day", usd(10_00), 24*time.Hour)},
	}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	m, d, err := guard.Open(context.Background(), budget, spend.UpToRequest{Request: spend.Request{
		ID: "call-1", Account: "user:7", Amount: usd(50), OnExpiry: spend.SpendOnExpiry,
	}})
	if m == nil {
		fmt.Println("declined, or an error:", d.Declines, err)
		return
	}
	defer func() { _ = m.Close(spend.Money{}) }() // does nothing after the Close below
	answer, cost := "Once upon a time", usd(16)   // of a call with m.Context()
	if err := m.Close(cost); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(answer)
	left, err := budget.Remaining(context.Background(), "user:7")
	fmt.Println(left[0].Used, "used,", left[0].Held, "held,", err)
	// Output:
	// Once upon a time
	// 0.16 USD used, 0.00 USD held, <nil>
}
