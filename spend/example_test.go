package spend_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/memledger"
)

func eur(s string) spend.Money {
	m, err := spend.ParseMoney(s, "EUR")
	if err != nil {
		log.Fatal(err)
	}
	return m
}

// newCards returns budgets of 1,000.00 in any 30 days. No spend may exceed 990.00.
func newCards() *spend.Budgets {
	l := memledger.New(nil) // boltledger and pgledger keep spends after the process ends
	cards, err := spend.New(l, spend.Budget{
		Name: "cards", Currency: "EUR",
		Rules: []spend.Rule{
			spend.Rolling("month", eur("1000.00"), 30*24*time.Hour),
			spend.PerTransaction("single", eur("990.00")),
		},
	}, nil)
	if err != nil {
		log.Fatal(err)
	}
	return cards
}

func ExampleBudgets_Charge() {
	ctx, cards := context.Background(), newCards()
	for _, r := range []spend.Request{
		{ID: "coffee", Account: "card:7", Amount: eur("30.00")},
		{ID: "bike", Account: "card:7", Amount: eur("990.00")},
		{ID: "coffee", Account: "card:7", Amount: eur("30.00")}, // sent again
		{ID: "flight", Account: "card:7", Amount: eur("970.00")},
	} {
		d, err := cards.Charge(ctx, r)
		if err != nil { // nothing was approved; send the same request again
			log.Fatal(err)
		}
		fmt.Println(r.ID, d.Approved, d.Replayed)
		for _, x := range d.Declines {
			fmt.Printf("  %s: %v of %v left\n", x.Rule, x.Remaining, x.Limit)
		}
	}
	// Output:
	// coffee true false
	// bike false false
	//   month: 970.00 EUR of 1000.00 EUR left
	// coffee true true
	// flight true false
}

func ExampleBudgets_Capture() {
	ctx, cards := context.Background(), newCards()
	show := func(step string, _ spend.Decision, err error) {
		if err != nil {
			log.Fatal(err)
		}
		list, err := cards.Remaining(ctx, "card:7")
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s: %v used, %v held\n", step, list[0].Used, list[0].Held)
	}
	d, err := cards.Authorize(ctx, spend.Request{ID: "hotel", Account: "card:7", Amount: eur("400.00")})
	show("authorized", d, err)
	d, err = cards.Capture(ctx, spend.CaptureRequest{ID: "night-1", HoldID: "hotel", Amount: eur("150.00")})
	show("captured", d, err)
	d, err = cards.Capture(ctx, spend.CaptureRequest{ID: "checkout", HoldID: "hotel", Amount: eur("170.00"), Final: true})
	show("checked out", d, err)
	d, err = cards.Refund(ctx, spend.RefundRequest{ID: "broken-shower", SpendID: "hotel", Amount: eur("50.00")})
	show("refunded", d, err)
	// Output:
	// authorized: 0.00 EUR used, 400.00 EUR held
	// captured: 150.00 EUR used, 250.00 EUR held
	// checked out: 320.00 EUR used, 0.00 EUR held
	// refunded: 270.00 EUR used, 0.00 EUR held
}
