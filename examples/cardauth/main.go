// Command cardauth decides the authorizations of payment cards over HTTP. It is a whole service: a
// test holds it to 175 statements.
//
//	go run ./examples/cardauth
//
//	curl -d '{"card":"7","amount":{"amount":"30.00","currency":"EUR"},"tags":{"category":"travel"}}' \
//		-H 'Idempotency-Key: pay-1' localhost:8080/authorizations
//	curl -d '{"amount":{"amount":"28.50","currency":"EUR"},"final":true}' \
//		-H 'Idempotency-Key: cap-1' localhost:8080/authorizations/pay-1/captures
//	curl localhost:8080/cards/7
//
// The ledger is a file, cards.db. Several instances share PostgreSQL, whose tables "brim migrate
// up" makes:
//
//	go run ./examples/cardauth -store postgres://localhost/cards -rules rules.json
//
// The rules are a file in the JSON form of a budget. Without one, those of rules.json beside this
// program count. The ledger keeps them, and all instances decide by its newest revision: a file
// with a lower one changes nothing.
//
// A network sends these messages, each with an Idempotency-Key:
//
//	POST /authorizations                  may the card spend this? With "least", a part will do
//	POST /authorizations/{id}/increments  more on a hold
//	POST /authorizations/{id}/captures    the merchant presents; also late, or more than was held
//	POST /authorizations/{id}/void        the merchant will not present
//	POST /authorizations/{id}/refunds     money of the payment that goes back; also more than was taken
//	POST /authorizations/{id}/cancel      the network got no answer, and declined
//	POST /advices                         the network has stood in: it approved the payment itself
//	POST /records                         a presentment that no authorization precedes
//	POST /credits                         money that comes in and belongs to no payment
//
// And the bank sends
//
//	POST /cards/{card}/freeze, /unfreeze, /limits
//	GET  /cards/{card}
//	PUT  /rules                           {"rules": a budget with a higher revision, "by", "reason"}
//	POST /rules/backtest                  {"rules": a budget, "since"}: how would these have decided?
//
// A rule with "shadow": true refuses nothing. Answers name it where it would have refused.
//
// Note four things. The Idempotency-Key is the ID of the request: whoever got no answer, or a 503,
// sends the same message again, and it has one effect. A decline is an answer and not a failure:
// 402 with a problem document that names every rule that refused, and with Retry-After if a wait
// helps.
//
// An authorization is answered within two seconds. If the ledger has not decided it by then, the
// answer is a decline, and the service cancels the request for as long as it takes: so nothing
// stays held. If the service is killed between the two, the hold ends with its TTL, or sooner if
// the network sends its cancel.
//
// And money that has moved is never refused: presentments and refunds are forced, and advices and
// records count whatever the rules say.
package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata" // an instance without the zone of a rule could not decide

	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/boltledger"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/spend/pgledger"
	"github.com/brimgo/brim/spend/sqliteledger"
	"github.com/brimgo/brim/stores"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "cardauth:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) (err error) {
	flags := flag.NewFlagSet("cardauth", flag.ContinueOnError)
	listen := flags.String("listen", "localhost:8080", "`address` to listen on")
	name := flags.String("store", "cards.db", "bbolt `file` of the ledger, sqlite:PATH, or a postgres:// URL")
	rules := flags.String("rules", "", "`file` of the rules of a card; without one, those of the example")
	if err := flags.Parse(args); err != nil {
		return err
	}
	budget, err := readRules(*rules)
	if err != nil {
		return err
	}
	db, err := stores.Open(ctx, *name, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	l, err := ledgerIn(ctx, db)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	cards, err := spend.New(ctx, l, budget, &spend.Options{Logger: slog.Default()})
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		return err
	}
	fmt.Println("listening on", listener.Addr())
	ctx, end := context.WithCancel(ctx)
	s := newService(ctx, cards)
	defer s.work.Wait()
	defer end()
	server := &http.Server{Handler: s.handler(), ReadTimeout: deadline}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err = <-served:
		return err
	case <-ctx.Done():
		return server.Shutdown(context.WithoutCancel(ctx)) // answers the requests in flight
	}
}

//go:embed rules.json
var example []byte

// readRules returns the budget in a file.
func readRules(file string) (budget spend.Budget, err error) {
	text := example
	if file != "" {
		if text, err = os.ReadFile(file); err != nil {
			return budget, err
		}
	}
	return budget, json.Unmarshal(text, &budget)
}

// ledgerIn returns the ledger that a store keeps beside its buckets.
func ledgerIn(ctx context.Context, db *stores.Store) (ledger.Ledger, error) {
	switch {
	case db.Bolt != nil:
		return boltledger.New(db.Bolt, nil)
	case db.Postgres != nil:
		return pgledger.New(db.Postgres, nil)
	case db.SQLite != nil:
		return sqliteledger.New(ctx, db.SQLite, nil)
	}
	return nil, fmt.Errorf("%s keeps no ledger; name a bbolt file, a SQLite database or a PostgreSQL", db.Name)
}
