package memledger_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/memledger"
)

// A test moves the clock of a ledger by a month.
func Example() {
	limit, err := spend.ParseMoney("100.00", "EUR")
	if err != nil {
		log.Fatal(err)
	}
	now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	cards, err := spend.New(context.Background(), memledger.New(&memledger.Options{Clock: func() time.Time { return now }}), spend.Budget{
		Name: "cards", Currency: "EUR", Rules: []spend.Rule{spend.Rolling("month", limit, 30*24*time.Hour)},
	}, nil)
	if err != nil {
		log.Fatal(err)
	}
	for _, id := range []string{"first", "second", "third"} {
		d, err := cards.Charge(context.Background(), spend.Request{ID: id, Account: "card:7", Amount: limit})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(id, d.Approved)
		if id == "second" {
			now = now.Add(30 * 24 * time.Hour)
		}
	}
	// Output:
	// first true
	// second false
	// third true
}
