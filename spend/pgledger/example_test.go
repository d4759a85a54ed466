package pgledger_test

import (
	"context"
	"log"
	"os"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/migrations"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/pgledger"
)

// Any number of processes decide on the same cards.
func Example() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	if err := migrations.Up(ctx, pool, nil); err != nil { // does nothing if the tables are there
		log.Fatal(err)
	}
	db, err := postgres.New(pool, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	ledger, err := pgledger.New(db, nil) // beside the buckets, in one schema
	if err != nil {
		log.Fatal(err)
	}
	defer ledger.Close()
	if err := ledger.Ping(ctx); err != nil { // a missing right shows here
		log.Fatal(err)
	}

	limit, err := spend.ParseMoney("1000.00", "EUR")
	if err != nil {
		log.Fatal(err)
	}
	cards, err := spend.New(ctx, ledger, spend.Budget{
		Name: "cards", Currency: "EUR", Rules: []spend.Rule{spend.Rolling("month", limit, 30*24*time.Hour)},
	}, nil)
	if err != nil {
		log.Fatal(err)
	}
	d, err := cards.Charge(ctx, spend.Request{ID: "pay-1", Account: "card:7", Amount: limit})
	switch {
	case err != nil:
		log.Print(err) // send the same request again
	case !d.Approved:
		log.Print(d.Declines)
	}
}
