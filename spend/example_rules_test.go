package spend_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/spend/memledger"
	"github.com/brimgo/brim/store"
)

// away is a ledger that is out of reach at first.
type away struct {
	ledger.Ledger
	tries int
}

func (l *away) View(ctx context.Context, job *ledger.Job) error {
	if l.tries++; l.tries < 3 {
		return store.ErrUnavailable
	}
	return l.Ledger.View(ctx, job)
}

// A program starts while its database is out of reach.
func ExampleNew() {
	const pause = time.Millisecond // a second in a program
	open := func(ctx context.Context, l ledger.Ledger, budget spend.Budget) (*spend.Budgets, error) {
		for {
			cards, err := spend.New(ctx, l, budget, nil)
			if !errors.Is(err, store.ErrUnavailable) && !errors.Is(err, store.ErrUnknownOutcome) {
				return cards, err
			}
			select {
			case <-time.After(pause):
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
	}
	l := &away{Ledger: memledger.New(nil)}
	_, err := open(context.Background(), l, spend.Budget{Name: "cards", Currency: "EUR", Rules: []spend.Rule{
		spend.Rolling("month", eur("1000.00"), 30*24*time.Hour),
	}})
	fmt.Println(l.tries > 2, err)
	// Output:
	// true <nil>
}

// The rules change while programs decide.
func ExampleBudgets_SetRules() {
	ctx, l := context.Background(), memledger.New(nil)
	budget := spend.Budget{Name: "cards", Currency: "EUR", Revision: 1, Rules: []spend.Rule{
		spend.Rolling("month", eur("1000.00"), 30*24*time.Hour),
	}}
	cards, err := spend.New(ctx, l, budget, nil)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := cards.Charge(ctx, spend.Request{ID: "tv", Account: "card:7", Amount: eur("900.00")}); err != nil {
		log.Fatal(err)
	}
	other, err := spend.Open(ctx, l, "cards", nil) // another program, without rules of its own
	if err != nil {
		log.Fatal(err)
	}

	budget.Revision = 2
	budget.Rules = []spend.Rule{spend.Rolling("month", eur("1500.00"), 30*24*time.Hour)}
	err = other.SetRules(ctx, budget, &spend.SetRulesOptions{By: "ann@bank.example", Reason: "Christmas"})
	if err != nil {
		log.Fatal(err)
	}
	left, err := cards.Remaining(ctx, "card:7")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(left[0].Remaining, "left")
	for r, err := range cards.Rules(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(r.Rules.Revision, r.By, r.Reason)
	}
	// Output:
	// 600.00 EUR left
	// 2 ann@bank.example Christmas
	// 1 New
}

// A rule is tried on live traffic before it judges.
func ExampleRule_Shadow() {
	ctx := context.Background()
	draft := spend.Rolling("week", eur("100.00"), 7*24*time.Hour).Shadow()
	cards, err := spend.New(ctx, memledger.New(nil), spend.Budget{Name: "cards", Currency: "EUR", Rules: []spend.Rule{
		spend.Rolling("month", eur("1000.00"), 30*24*time.Hour), draft,
	}}, nil)
	if err != nil {
		log.Fatal(err)
	}
	for i := range 2 {
		d, err := cards.Charge(ctx, spend.Request{ID: fmt.Sprint("pay-", i), Account: "card:7", Amount: eur("80.00")})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("approved:", d.Approved)
		for _, u := range d.Shadow {
			fmt.Println("  refused in the shadow:", u.Rule)
		}
	}
	// Output:
	// approved: true
	// approved: true
	//   refused in the shadow: week
}

// The payments of a month are decided anew by tighter rules.
func ExampleBudgets_Backtest() {
	ctx, cards := context.Background(), newCards()
	for i, amount := range []string{"80.00", "990.00", "80.00"} {
		if _, err := cards.Charge(ctx, spend.Request{ID: fmt.Sprint("pay-", i), Account: "card:7", Amount: eur(amount)}); err != nil {
			log.Fatal(err)
		}
	}
	tighter := spend.Budget{Name: "cards", Currency: "EUR", Rules: []spend.Rule{spend.Rolling("week", eur("100.00"), 7*24*time.Hour)}}
	err := cards.Backtest(ctx, spend.BacktestOptions{
		Rules: tighter, Since: time.Now().Add(-30 * 24 * time.Hour),
		Flip: func(f spend.Flip) error {
			fmt.Println(f.Entry.RequestID, f.Entry.Amount, "approved:", f.Approved, f.Refused)
			return nil
		},
		Done: func(r spend.Replayed) error {
			fmt.Println(r.Name, r.Decisions, "decisions", r.Skipped)
			return nil
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// pay-2 80.00 EUR approved: false [week]
	// card:7 3 decisions
}
