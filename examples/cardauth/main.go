// Command cardauth decides card authorizations over HTTP, with budgets in PostgreSQL.
//
//	go run ./examples/cardauth -postgres postgres://localhost/cards
//
//	curl -d '{"card":"7","amount":{"amount":"30.00","currency":"EUR"},"category":"travel"}' \
//		-H 'Idempotency-Key: pay-1' localhost:8080/authorizations
//	curl -d '{"amount":{"amount":"28.50","currency":"EUR"},"final":true}' \
//		-H 'Idempotency-Key: cap-1' localhost:8080/authorizations/pay-1/captures
//	curl localhost:8080/cards/7
//
// Without a database, it runs a scripted day of one card through the same rules, and prints it:
//
//	go run ./examples/cardauth -day
//
// Note three things. The Idempotency-Key of the client is the ID of the request. A client that
// got no answer, or a 503, can send the same request again, and the card is charged once. A
// decline is an answer and not a failure: 402 with a problem document that names every rule that
// refused, and with Retry-After if a wait helps. If the database cannot answer, nothing is
// approved.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/migrations"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/pgledger"
	"github.com/brimgo/brim/store"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	url := flag.String("postgres", "", "connection string")
	addr := flag.String("listen", "localhost:8080", "address to listen on")
	scripted := flag.Bool("day", false, "run a scripted day of one card in memory, and print it")
	flag.Parse()
	if *scripted {
		if err := day(ctx, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "cardauth:", err)
			os.Exit(1)
		}
		return
	}
	if err := run(ctx, *url, *addr); err != nil {
		fmt.Fprintln(os.Stderr, "cardauth:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, url, addr string) error {
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := migrations.Up(ctx, pool, nil); err != nil {
		return err
	}
	handler, end, err := newHandler(pool, "")
	if err != nil {
		return err
	}
	server := &http.Server{Addr: addr, Handler: handler, ReadHeaderTimeout: 5 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.ListenAndServe() }()
	fmt.Println("listening on", addr)
	select {
	case err = <-served:
	case <-ctx.Done():
		// Shutdown lets the server answer the requests in flight.
		quiet, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		err = server.Shutdown(quiet)
	}
	return errors.Join(err, end())
}

func euros(n int64) spend.Money { return spend.Money{Minor: n * 100, Currency: "EUR"} }

// budget returns the rules of all cards.
func budget() spend.Budget {
	return spend.Budget{
		Name: "cards", Currency: "EUR",
		Rules: []spend.Rule{
			spend.Rolling("month", euros(1000), 30*24*time.Hour).AtMost(euros(5000)),
			spend.PerTransaction("single", euros(500)).AtMost(euros(5000)),
			spend.Count("burst", 5, 10*time.Minute),
			spend.Rolling("travel", euros(400), 7*24*time.Hour).Matching("category", "travel", "hotel"),
			spend.PerTransaction("no casinos", euros(0)).Matching("category", "casino"),
		},
	}
}

// newHandler returns the service over the tables in a schema, and a function that closes it.
func newHandler(pool *pgxpool.Pool, schema string) (http.Handler, func() error, error) {
	db, err := postgres.New(pool, &postgres.Options{Schema: schema})
	if err != nil {
		return nil, nil, err
	}
	l, err := pgledger.New(db, nil)
	if err != nil {
		return nil, nil, errors.Join(err, db.Close())
	}
	end := func() error { return errors.Join(l.Close(), db.Close()) }
	cards, err := spend.New(l, budget(), nil)
	if err != nil {
		return nil, nil, errors.Join(err, end())
	}
	s := &service{cards}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /authorizations", s.authorize)
	mux.HandleFunc("POST /authorizations/{id}/captures", s.capture)
	mux.HandleFunc("POST /authorizations/{id}/void", s.void)
	mux.HandleFunc("GET /cards/{card}", s.remaining)
	return mux, end, nil
}

// service handles the requests.
type service struct{ cards *spend.Budgets }

func (s *service) authorize(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Card     string      `json:"card"`
		Amount   spend.Money `json:"amount"`
		Category string      `json:"category"`
		Merchant string      `json:"merchant"`
	}
	if !read(w, r, &body) {
		return
	}
	tags := map[string]string{"category": body.Category, "merchant": body.Merchant}
	d, err := s.cards.Authorize(r.Context(),
		spend.Request{ID: key(r), Account: "card:" + body.Card, Amount: body.Amount, Tags: tags})
	answer(w, http.StatusCreated, key(r), d, err)
}

func (s *service) capture(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Amount spend.Money `json:"amount"`
		Final  bool        `json:"final"`
		Force  bool        `json:"force"`
	}
	if !read(w, r, &body) {
		return
	}
	d, err := s.cards.Capture(r.Context(), spend.CaptureRequest{
		ID: key(r), HoldID: r.PathValue("id"), Amount: body.Amount, Final: body.Final, Force: body.Force,
	})
	answer(w, http.StatusOK, key(r), d, err)
}

func (s *service) void(w http.ResponseWriter, r *http.Request) {
	d, err := s.cards.Void(r.Context(), spend.VoidRequest{ID: key(r), HoldID: r.PathValue("id")})
	answer(w, http.StatusOK, key(r), d, err)
}

func (s *service) remaining(w http.ResponseWriter, r *http.Request) {
	list, err := s.cards.Remaining(r.Context(), "card:"+r.PathValue("card"))
	if err != nil {
		failed(w, err)
		return
	}
	write(w, http.StatusOK, "application/json", list)
}

// key returns the ID of a request. A client may send a request with the same ID again.
func key(r *http.Request) string { return r.Header.Get("Idempotency-Key") }

// read decodes the body of a request, and answers the request if that fails.
func read(w http.ResponseWriter, r *http.Request, body any) bool {
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<16))
	d.DisallowUnknownFields()
	if err := d.Decode(body); err != nil {
		write(w, http.StatusBadRequest, "application/problem+json",
			problem{Title: "the body cannot be read", Status: http.StatusBadRequest, Detail: err.Error()})
		return false
	}
	return true
}

// problem is a problem document of RFC 9457.
type problem struct {
	Type     string          `json:"type,omitempty"`
	Title    string          `json:"title"`
	Status   int             `json:"status"`
	Detail   string          `json:"detail,omitempty"`
	Declines []spend.Decline `json:"declines,omitempty"`
}

// answer answers a request with its decision or error.
func answer(w http.ResponseWriter, status int, id string, d spend.Decision, err error) {
	switch {
	case err != nil:
		failed(w, err)
	case !d.Approved:
		if d.RetryAfter != brim.Never {
			w.Header().Set("Retry-After", strconv.FormatInt(int64(math.Ceil(d.RetryAfter.Seconds())), 10))
		}
		write(w, http.StatusPaymentRequired, "application/problem+json", problem{
			Type: "urn:cardauth:declined", Title: "declined", Status: http.StatusPaymentRequired,
			Detail: fmt.Sprintf("%d rules refused", len(d.Declines)), Declines: d.Declines,
		})
	default:
		write(w, status, "application/json", struct {
			ID string `json:"id"`
			spend.Decision
		}{id, d})
	}
}

// failed answers a request with an error. The texts of brim's errors do not contain the card.
func failed(w http.ResponseWriter, err error) {
	status := http.StatusInternalServerError
	switch {
	case errors.Is(err, spend.ErrRequest), errors.Is(err, spend.ErrAmount), errors.Is(err, spend.ErrCurrency):
		status = http.StatusBadRequest
	case errors.Is(err, spend.ErrUnknownSpend):
		status = http.StatusNotFound
	case errors.Is(err, spend.ErrIDReused):
		status = http.StatusUnprocessableEntity
	case errors.Is(err, spend.ErrHoldEnded),
		errors.Is(err, spend.ErrHoldExpired),
		errors.Is(err, spend.ErrNotHeld),
		errors.Is(err, spend.ErrNotCaptured):
		status = http.StatusConflict
	case errors.Is(err, store.ErrUnknownOutcome), errors.Is(err, store.ErrUnavailable):
		// The same request with the same key returns the outcome.
		w.Header().Set("Retry-After", "1")
		status = http.StatusServiceUnavailable
	}
	write(w, status, "application/problem+json",
		problem{Title: http.StatusText(status), Status: status, Detail: err.Error()})
}

// write writes a body as JSON.
func write(w http.ResponseWriter, status int, kind string, body any) {
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // fails if the client has hung up
}
