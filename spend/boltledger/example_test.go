package boltledger_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/brimgo/brim/bolt"
	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/boltledger"
)

// The second program knows the answer that the first one gave, and gives it again.
func Example() {
	dir, err := os.MkdirTemp("", "brim-example-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	eur := func(cents int64) spend.Money { return spend.Money{Minor: cents, Currency: "EUR"} }
	for range 2 {
		db, err := bolt.Open(filepath.Join(dir, "limits.db"), nil)
		if err != nil {
			log.Fatal(err)
		}
		ledger, err := boltledger.New(db, nil) // beside the buckets, in one file
		if err != nil {
			log.Fatal(err)
		}
		cards, err := spend.New(context.Background(), ledger, spend.Budget{
			Name: "cards", Currency: "EUR", Rules: []spend.Rule{
				spend.Calendar("month", eur(1000_00), spend.Month, time.UTC),
				spend.Calendar("day", eur(300_00), spend.Day, time.UTC),
			},
		}, nil)
		if err != nil {
			log.Fatal(err)
		}
		d, err := cards.Charge(context.Background(), spend.Request{ID: "pay-1", Account: "card:7", Amount: eur(60_00)})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("approved:", d.Approved, "replayed:", d.Replayed)
		ledger.Close()
		db.Close()
	}
	// Output:
	// approved: true replayed: false
	// approved: true replayed: true
}
