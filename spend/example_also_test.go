package spend_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/memledger"
)

// A key has 10.00 a month, and its team has 25.00. A charge counts against both or against none,
// and a decline names the level. Key 3 goes on in another team by naming it.
func ExampleRequest_also() {
	usd := func(s string) spend.Money {
		m, err := spend.ParseMoney(s, "USD")
		if err != nil {
			log.Fatal(err)
		}
		return m
	}
	level := func(name, month string) spend.Budget {
		return spend.Budget{Name: name, Currency: "USD", Rules: []spend.Rule{
			spend.Calendar("month", usd(month), spend.Month, time.UTC),
		}}
	}
	ctx := context.Background()
	budgets, err := spend.New(ctx, memledger.New(nil), level("keys", "10.00"), &spend.Options{
		Budgets: []spend.Budget{level("teams", "25.00")},
	})
	if err != nil {
		log.Fatal(err)
	}
	charge := func(id, key, team, amount string) error {
		d, err := budgets.Charge(ctx, spend.Request{
			ID: id, Account: key, Amount: usd(amount), Also: []spend.Account{{Budget: "teams", Name: team}},
		})
		if err != nil { // nothing was approved; send the same request again
			return err
		}
		fmt.Println(id, d.Approved)
		for _, x := range d.Declines { // every rule that refused, on every level
			fmt.Printf("  %s %s: %v of %v left\n", x.Budget, x.Name, x.Remaining, x.Limit)
		}
		return nil
	}
	for _, c := range [][4]string{
		{"call-1", "key-1", "red", "9.00"},
		{"call-2", "key-2", "red", "9.00"},
		{"call-3", "key-1", "red", "2.00"},
		{"call-4", "key-3", "red", "9.00"},
		{"call-5", "key-3", "blue", "9.00"},
	} {
		if err := charge(c[0], c[1], c[2], c[3]); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// call-1 true
	// call-2 true
	// call-3 false
	//   keys key-1: 1.00 USD of 10.00 USD left
	// call-4 false
	//   teams red: 7.00 USD of 25.00 USD left
	// call-5 true
}
