package spend_test

import (
	"context"
	"encoding/json"
	"errors"
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
	l := memledger.New(nil) // the other ledgers keep spends after the process ends
	cards, err := spend.New(context.Background(), l, spend.Budget{
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

// A payment is authorized, and captured when the merchant presents.
func ExampleBudgets_Authorize() {
	ctx, cards := context.Background(), newCards()
	pay := func(id, amount string) error {
		d, err := cards.Authorize(ctx, spend.Request{ID: id, Account: "card:7", Amount: eur(amount)})
		if err != nil { // nothing is approved: send the same request again
			return err
		}
		for _, x := range d.Declines { // every rule that refused
			fmt.Printf("%s: %s has %v of %v left\n", id, x.Rule, x.Remaining, x.Limit)
		}
		if !d.Approved {
			return nil
		}
		_, err = cards.Capture(ctx, spend.CaptureRequest{ID: id + "/end", HoldID: id, Amount: eur(amount), Final: true})
		return err
	}
	fmt.Println(pay("pay-1", "30.00"))
	fmt.Println(pay("pay-1", "30.00")) // its answer was lost
	fmt.Println(pay("pay-2", "980.00"))
	// Output:
	// <nil>
	// <nil>
	// pay-2: month has 970.00 EUR of 1000.00 EUR left
	// <nil>
}

// A program asks whether an amount would fit, and then puts it in. The decision is the charge's:
// somebody else may have spent in between.
func ExampleBudgets_AbleToAccept() {
	ctx, cards := context.Background(), newCards()
	asked, err := cards.AbleToAccept(ctx, spend.Request{Account: "card:7", Amount: eur("30.00")})
	if err != nil {
		log.Fatal(err)
	}
	spent, err := cards.Charge(ctx, spend.Request{ID: "coffee", Account: "card:7", Amount: eur("30.00")})
	if err != nil { // nothing was approved; send the same request again
		log.Fatal(err)
	}
	fmt.Println(asked.Approved, spent.Approved, spent.Remaining[0].Remaining)
	// Output: true true 970.00 EUR
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

func ExampleBudgets_SetLimits() {
	ctx, id := context.Background(), "raise-1"
	friday := time.Now().Add(48 * time.Hour)
	day := spend.Rolling("day", eur("500.00"), 24*time.Hour).AtMost(eur("5000.00"))
	cards, err := spend.New(ctx, memledger.New(nil), spend.Budget{Name: "cards", Currency: "EUR", Rules: []spend.Rule{day}}, nil)
	if err != nil {
		log.Fatal(err)
	}
	_, err = cards.SetLimits(ctx, spend.LimitsRequest{ID: id, Account: "card:7", Limits: []spend.RuleLimit{
		{Rule: "day", Amount: eur("2000.00"), Until: friday},
	}})
	if err != nil {
		log.Fatal(err)
	}
	for _, card := range []string{"card:7", "card:8"} {
		d, err := cards.AbleToAccept(ctx, spend.Request{Account: card, Amount: eur("1200.00")})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(card, d.Approved, d.Remaining[0].Limit)
	}
	// Output:
	// card:7 true 2000.00 EUR
	// card:8 false 500.00 EUR
}

func ExampleBudgets_MoveAccount() {
	ctx, id := context.Background(), "replaced-1"
	month := spend.Rolling("month", eur("1000.00"), 30*24*time.Hour)
	cards, err := spend.New(ctx, memledger.New(nil), spend.Budget{Name: "cards", Currency: "EUR", Rules: []spend.Rule{month}}, nil)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := cards.Charge(ctx, spend.Request{ID: "r-1", Account: "card:7", Amount: eur("150.00")}); err != nil {
		log.Fatal(err)
	}
	_, err = cards.MoveAccount(ctx, spend.MoveRequest{ID: id, Account: "card:7", To: "card:8", Reason: "reported lost"})
	if err != nil {
		log.Fatal(err)
	}
	for _, card := range []string{"card:7", "card:8"} { // a request under the old name may still come
		left, err := cards.Remaining(ctx, card)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(left[0].Name, left[0].Remaining)
	}
	// Output:
	// card:8 850.00 EUR
	// card:8 850.00 EUR
}

func ExampleBudgets_SetPlan() {
	ctx, id := context.Background(), "upgrade-1"
	budget := spend.Budget{Name: "cards", Currency: "EUR", Rules: []spend.Rule{
		spend.Rolling("month", eur("1000.00"), 30*24*time.Hour),
	}}
	budget.Plans = map[string][]spend.Rule{"gold": {
		spend.Rolling("month", eur("5000.00"), 30*24*time.Hour), spend.Count("bursts", 20, time.Minute),
	}}
	cards, err := spend.New(ctx, memledger.New(nil), budget, nil)
	if err != nil {
		log.Fatal(err)
	}
	_, err = cards.SetPlan(ctx, spend.PlanRequest{ID: id, Account: "card:7", Plan: "gold"})
	if err != nil {
		log.Fatal(err)
	}
	for _, card := range []string{"card:7", "card:8"} {
		d, err := cards.AbleToAccept(ctx, spend.Request{Account: card, Amount: eur("1200.00")})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(card, d.Approved, d.Remaining[0].Limit)
	}
	// Output:
	// card:7 true 5000.00 EUR
	// card:8 false 1000.00 EUR
}

func ExampleBudgets_Record() {
	ctx, cards := context.Background(), newCards()
	now := time.Now()
	for range 2 { // the import stops in the middle, and is run again
		for _, row := range []struct {
			ID, Card string
			Amount   spend.Money
			At       time.Time
		}{
			{"17", "card:7", eur("300.00"), now.Add(-40 * 24 * time.Hour)},
			{"18", "card:7", eur("120.00"), now.Add(-9 * 24 * time.Hour)},
			{"19", "card:7", eur("80.00"), now.Add(-time.Hour)},
		} {
			_, err := cards.Record(ctx, spend.Request{
				ID: "import:" + row.ID, Account: row.Card, Amount: row.Amount, Dated: row.At,
			})
			if err != nil {
				log.Fatal(err)
			}
		}
	}
	list, err := cards.Remaining(ctx, "card:7")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(list[0].Rule, list[0].Used)
	// Output:
	// month 200.00 EUR
}

func ExampleBudget_UnmarshalJSON() {
	read := func(text []byte) (*spend.Budgets, error) {
		var budget spend.Budget
		if err := json.Unmarshal(text, &budget); err != nil {
			return nil, err
		}
		return spend.New(context.Background(), memledger.New(nil), budget, nil)
	}
	_, err := read([]byte(`{"budget": "cards", "currency": "EUR", "rules": [
		{"name": "month", "rolling": "1000.00", "window": "30d"},
		{"name": "day", "calendar": "200.00", "period": "day"}
	]}`))
	fmt.Println(err)
	// Output:
	// spend: invalid budget: rules[1]: a calendar rule needs zone
}

// The hold of another system is brought in, and an answer that comes too late is canceled.
func ExampleBudgets_Cancel() {
	ctx, cards := context.Background(), newCards()
	hold := struct {
		ID, Card string
		Amount   spend.Money
		At, Ends time.Time
	}{"auth-17", "card:7", eur("80.00"), time.Now().Add(-24 * time.Hour), time.Now().Add(48 * time.Hour)}
	_, err := cards.Authorize(ctx, spend.Request{
		ID: hold.ID, Account: hold.Card, Amount: hold.Amount, Forced: true, Dated: hold.At, TTL: time.Until(hold.Ends),
	})
	if err != nil {
		log.Fatal(err)
	}
	d, err := cards.Cancel(ctx, "auth-17", "card:7")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("canceled:", d.Amount)
	if _, err = cards.Cancel(ctx, "auth-18", "card:7"); err != nil { // it is on its way
		log.Fatal(err)
	}
	d, err = cards.Authorize(ctx, spend.Request{ID: "auth-18", Account: "card:7", Amount: eur("5.00")})
	fmt.Println("approved:", d.Approved, "canceled:", d.Canceled, err)
	// Output:
	// canceled: 80.00 EUR
	// approved: false canceled: true <nil>
}

func ExampleBudgets_ChargeAll() {
	ctx, cards := context.Background(), newCards()
	requests := []spend.Request{
		{ID: "fare-1", Account: "card:7", Amount: eur("2.90")},
		{ID: "fare-2", Account: "card:8", Amount: eur("2.90")},
		{ID: "fare-3", Account: "card:7", Amount: spend.Money{Minor: 290, Currency: "USD"}},
		{ID: "flight", Account: "card:7", Amount: eur("2000.00")},
	}
	for i, a := range cards.ChargeAll(ctx, requests) {
		switch {
		case errors.Is(a.Err, spend.ErrCurrency):
			fmt.Println(requests[i].ID, "is in another currency")
		case a.Err != nil:
			log.Fatal(a.Err)
		default:
			fmt.Println(requests[i].ID, a.Decision.Approved)
		}
	}
	// Output:
	// fare-1 true
	// fare-2 true
	// fare-3 is in another currency
	// flight false
}

func ExampleBudgets_Export() {
	ctx, cards := context.Background(), newCards()
	for i, card := range []string{"card:8", "card:7", "card:7"} {
		_, err := cards.Charge(ctx, spend.Request{ID: fmt.Sprint("pay-", i), Account: card, Amount: eur("4.50")})
		if err != nil {
			log.Fatal(err)
		}
	}
	for e, err := range cards.Export(ctx, spend.Entry{}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(e.Name, e.Seq, e.Kind, e.Used, e.RequestID)
	}
	// Output:
	// card:7 2 spend 4.50 EUR pay-2
	// card:7 1 spend 4.50 EUR pay-1
	// card:8 1 spend 4.50 EUR pay-0
}

func ExampleMoney_In() {
	budget := spend.Budget{Name: "agents", Currency: "USD:8", Rules: []spend.Rule{
		spend.Calendar("day", spend.Money{Minor: 25_00, Currency: "USD"}, spend.Day, time.UTC),
	}}
	agents, err := spend.New(context.Background(), memledger.New(nil), budget, nil)
	if err != nil {
		log.Fatal(err)
	}
	price, err := spend.ParseMoney("0.00000315", "USD:8") // of a token
	if err != nil {
		log.Fatal(err)
	}
	cost := spend.Money{Minor: 1523 * price.Minor, Currency: price.Currency}
	d, err := agents.Charge(context.Background(), spend.Request{ID: "call-1", Account: "agent", Amount: cost})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(d.Amount, "of", d.Remaining[0].Limit)
	_, err = cost.In("USD")
	fmt.Println(err)
	// Output:
	// 0.00479745 USD of 25.00000000 USD
	// spend: invalid amount: 0.00479745 USD is finer than the unit of USD, which has 2 decimal places
}

func ExampleBudgets_Credit() {
	ctx := context.Background()
	net := spend.Calendar("net", eur("1000.00"), spend.Month, time.UTC).CountsCredits()
	gross := spend.Rolling("gross", eur("5000.00"), 30*24*time.Hour)
	cards, err := spend.New(ctx, memledger.New(nil), spend.Budget{Name: "cards", Currency: "EUR", Rules: []spend.Rule{net, gross}}, nil)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := cards.Charge(ctx, spend.Request{ID: "tv", Account: "card:7", Amount: eur("900.00")}); err != nil {
		log.Fatal(err)
	}
	d, err := cards.Credit(ctx, spend.Request{ID: "payment-12", Account: "card:7", Amount: eur("2000.00")})
	if err != nil {
		log.Fatal(err)
	}
	for _, u := range d.Remaining {
		fmt.Println(u.Rule, u.Used, "used")
	}
	// Output:
	// net 0.00 EUR used
	// gross 900.00 EUR used
}

func ExampleRule_MatchingAtLeast() {
	ctx := context.Background()
	large := spend.Count("large", 3, 24*time.Hour).MatchingAtLeast(eur("250.00"))
	cards, err := spend.New(ctx, memledger.New(nil), spend.Budget{Name: "cards", Currency: "EUR", Rules: []spend.Rule{large}}, nil)
	if err != nil {
		log.Fatal(err)
	}
	for i, amount := range []string{"249.99", "250.00", "900.00", "300.00", "400.00", "20.00"} {
		d, err := cards.Charge(ctx, spend.Request{ID: fmt.Sprint("pay-", i), Account: "card:7", Amount: eur(amount)})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(amount, d.Approved)
	}
	// Output:
	// 249.99 true
	// 250.00 true
	// 900.00 true
	// 300.00 true
	// 400.00 false
	// 20.00 true
}

func ExampleRule_Per() {
	ctx := context.Background()
	shops := spend.Calendar("shops", eur("100.00"), spend.Day, time.UTC).Per("merchant")
	noon := func() time.Time { return time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC) } // leave it out for the clock of the machine
	l := memledger.New(&memledger.Options{Clock: noon})
	cards, err := spend.New(ctx, l, spend.Budget{Name: "cards", Currency: "EUR", Rules: []spend.Rule{shops}}, nil)
	if err != nil {
		log.Fatal(err)
	}
	for i, merchant := range []string{"bakery", "bakery", "florist"} {
		d, err := cards.Charge(ctx, spend.Request{
			ID: fmt.Sprint("pay-", i), Account: "card:7", Amount: eur("60.00"), Tags: map[string]string{"merchant": merchant},
		})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(merchant, d.Approved, d.Remaining[0].Used)
	}
	// Output:
	// bakery true 60.00 EUR
	// bakery false 60.00 EUR
	// florist true 60.00 EUR
}

func ExampleRule_CountsDeclines() {
	ctx := context.Background()
	attempts := spend.Count("attempts", 5, 10*time.Minute).CountsDeclines()
	single := spend.PerTransaction("single", eur("500.00"))
	cards, err := spend.New(ctx, memledger.New(nil), spend.Budget{Name: "cards", Currency: "EUR", Rules: []spend.Rule{attempts, single}}, nil)
	if err != nil {
		log.Fatal(err)
	}
	for i, amount := range []string{"900.00", "800.00", "700.00", "600.00", "550.00", "1.00"} {
		d, err := cards.Charge(ctx, spend.Request{ID: fmt.Sprint("pay-", i), Account: "card:7", Amount: eur(amount)})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(amount, d.Declines[0].Rule)
	}
	// Output:
	// 900.00 single
	// 800.00 single
	// 700.00 single
	// 600.00 single
	// 550.00 single
	// 1.00 attempts
}

func ExampleRule_Thresholds() {
	ctx := context.Background()
	month := spend.Calendar("month", eur("1000.00"), spend.Month, time.UTC).Thresholds(50, 80, 100)
	cards, err := spend.New(ctx, memledger.New(nil), spend.Budget{Name: "cards", Currency: "EUR", Rules: []spend.Rule{month}}, nil)
	if err != nil {
		log.Fatal(err)
	}
	for i, amount := range []string{"400.00", "450.00", "10.00"} {
		d, err := cards.Charge(ctx, spend.Request{ID: fmt.Sprint("pay-", i), Account: "card:7", Amount: eur(amount)})
		if err != nil {
			log.Fatal(err)
		}
		for _, c := range d.Crossed {
			fmt.Printf("%s has reached %d %% of %s: %s\n", c.Account.Name, c.Share, c.Rule, c.Used)
		}
	}
	// Output:
	// card:7 has reached 50 % of month: 850.00 EUR
	// card:7 has reached 80 % of month: 850.00 EUR
}

func ExampleRequest_varying() {
	ctx := context.Background()
	month := spend.Rolling("month", eur("1000.00"), 30*24*time.Hour)
	cards, err := spend.New(ctx, memledger.New(nil), spend.Budget{Name: "cards", Currency: "EUR", Rules: []spend.Rule{month}}, nil)
	if err != nil {
		log.Fatal(err)
	}
	id := "pay-1"
	for _, trace := range []string{"000017", "000018"} {
		r := spend.Request{
			ID: id, Account: "card:7", Amount: eur("30.00"),
			Tags: map[string]string{"mcc": "5411", "trace": trace}, Varying: []string{"trace"},
		}
		d, err := cards.Charge(ctx, r)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(d.Approved, d.Replayed, d.Remaining[0].Used)
	}
	// Output:
	// true false 30.00 EUR
	// true true 30.00 EUR
}
