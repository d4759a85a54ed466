package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"math"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/store"
)

// deadline is the time in which the network gets its answer.
const deadline = 2 * time.Second

// service answers the messages of a network.
type service struct {
	cards *spend.Budgets
	ended <-chan struct{} // closed when the service shuts down
	work  sync.WaitGroup  // upkeep, and cancellations in flight
}

// newService returns a service that ends its work after ctx has ended.
func newService(ctx context.Context, cards *spend.Budgets) *service {
	s := &service{cards: cards, ended: ctx.Done()}
	s.work.Go(func() { s.prune(ctx) })
	return s
}

// The messages. A field that a message does not have is an error.
type (
	payment struct {
		Card   string            `json:"card"`
		Amount spend.Money       `json:"amount"`
		Tags   map[string]string `json:"tags"` // such as the category and the country of the merchant
	}
	authorization struct {
		payment
		Least spend.Money `json:"least"` // approves a part of the amount, from so much on
	}
	elsewhere struct { // a payment that was decided elsewhere
		payment
		Dated time.Time `json:"dated"`
	}
	increment struct {
		Amount spend.Money `json:"amount"`
		Least  spend.Money `json:"least"`
	}
	capture struct {
		Amount spend.Money `json:"amount"`
		Final  bool        `json:"final"`
	}
	refund struct {
		Amount spend.Money `json:"amount"`
	}
	cancel struct {
		Card string `json:"card"`
	}
	freeze struct {
		Reason string `json:"reason"`
	}
	limits struct {
		Limits []spend.RuleLimit `json:"limits"`
	}
	rules struct {
		Rules  spend.Budget `json:"rules"`
		By     string       `json:"by"`
		Reason string       `json:"reason"`
	}
	trial struct {
		Rules spend.Budget `json:"rules"`
		Since time.Time    `json:"since"`
	}
)

// request returns the request for a payment.
func (p *payment) request(key string) spend.Request {
	return spend.Request{ID: key, Account: "card:" + p.Card, Amount: p.Amount, Tags: p.Tags}
}

// request returns the request for a payment that no rule declines.
func (e *elsewhere) request(key string) spend.Request {
	r := e.payment.request(key)
	r.Forced, r.Dated = true, e.Dated
	return r
}

func (s *service) handler() http.Handler {
	routes := map[string]http.HandlerFunc{
		"POST /authorizations": handle(s.authorize),
		"POST /authorizations/{of}/increments": handle(func(ctx context.Context, key, of string, m increment) (spend.Decision, error) {
			return s.cards.Increase(ctx, spend.IncreaseRequest{ID: key, HoldID: of, Amount: m.Amount, Least: m.Least})
		}),
		"POST /authorizations/{of}/captures": handle(func(ctx context.Context, key, of string, m capture) (spend.Decision, error) {
			return s.cards.Capture(ctx, spend.CaptureRequest{ID: key, HoldID: of, Amount: m.Amount, Final: m.Final, Force: true})
		}),
		"POST /authorizations/{of}/void": handle(func(ctx context.Context, key, of string, _ struct{}) (spend.Decision, error) {
			return s.cards.Void(ctx, spend.VoidRequest{ID: key, HoldID: of})
		}),
		"POST /authorizations/{of}/refunds": handle(func(ctx context.Context, key, of string, m refund) (spend.Decision, error) {
			return s.cards.Refund(ctx, spend.RefundRequest{ID: key, SpendID: of, Amount: m.Amount, Force: true})
		}),
		"POST /authorizations/{of}/cancel": handle(func(ctx context.Context, _, of string, m cancel) (spend.Decision, error) {
			return s.cards.Cancel(ctx, of, "card:"+m.Card)
		}),
		"POST /advices": handle(func(ctx context.Context, key, _ string, m elsewhere) (spend.Decision, error) {
			return s.cards.Authorize(ctx, m.request(key))
		}),
		"POST /records": handle(func(ctx context.Context, key, _ string, m elsewhere) (spend.Decision, error) {
			return s.cards.Record(ctx, m.request(key))
		}),
		"POST /credits": handle(func(ctx context.Context, key, _ string, m payment) (spend.Decision, error) {
			return s.cards.Credit(ctx, m.request(key))
		}),
		"POST /cards/{of}/freeze": handle(func(ctx context.Context, key, of string, m freeze) (spend.Decision, error) {
			return s.cards.Freeze(ctx, spend.FreezeRequest{ID: key, Account: "card:" + of, Reason: m.Reason})
		}),
		"POST /cards/{of}/unfreeze": handle(func(ctx context.Context, key, of string, m freeze) (spend.Decision, error) {
			return s.cards.Unfreeze(ctx, spend.FreezeRequest{ID: key, Account: "card:" + of, Reason: m.Reason})
		}),
		"POST /cards/{of}/limits": handle(func(ctx context.Context, key, of string, m limits) (spend.Decision, error) {
			return s.cards.SetLimits(ctx, spend.LimitsRequest{ID: key, Account: "card:" + of, Limits: m.Limits})
		}),
		"GET /cards/{of}": answer(s.figures),
		"PUT /rules": answer(func(ctx context.Context, _ string, m rules) (any, error) {
			ctx, stop := context.WithTimeout(ctx, deadline)
			defer stop()
			return map[string]int64{"revision": m.Rules.Revision}, s.cards.SetRules(ctx, m.Rules, &spend.SetRulesOptions{By: m.By, Reason: m.Reason})
		}),
		"POST /rules/backtest": answer(s.backtest),
	}
	mux := http.NewServeMux()
	for pattern, handler := range routes {
		mux.HandleFunc(pattern, handler)
	}
	return mux
}

// authorize decides an authorization until the deadline. Then it declines, and cancels the request.
func (s *service) authorize(ctx context.Context, key, _ string, m authorization) (d spend.Decision, err error) {
	r := m.request(key)
	for {
		if m.Least == (spend.Money{}) {
			d, err = s.cards.Authorize(ctx, r)
		} else {
			d, err = s.cards.UpTo(ctx, spend.UpToRequest{Request: r, Least: m.Least, Hold: true})
		}
		if status(err) != http.StatusServiceUnavailable {
			return d, err
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			s.work.Go(func() { s.cancel(key, r.Account) })
			return spend.Decision{Canceled: true, RetryAfter: brim.Never}, nil
		}
	}
}

// cancel cancels a request. It goes on until the ledger has answered, or the service shuts down.
func (s *service) cancel(id, account string) {
	for {
		ctx, stop := context.WithTimeout(context.Background(), deadline)
		_, err := s.cards.Cancel(ctx, id, account)
		stop()
		if status(err) != http.StatusServiceUnavailable {
			return // canceled, or the ID is that of another card, and the authorization had no effect
		}
		slog.Error("an authorization that was declined at the deadline is not canceled yet", "id", id, "error", err)
		select {
		case <-time.After(time.Second):
		case <-s.ended:
			return
		}
	}
}

// prune removes data that nothing needs, once an hour.
func (s *service) prune(ctx context.Context) {
	for {
		if _, err := s.cards.Prune(ctx); err != nil && ctx.Err() == nil {
			slog.Error("prune", "error", err)
		}
		select {
		case <-time.After(time.Hour):
		case <-s.ended:
			return
		}
	}
}

// figures tells the figures of a card by rule, and its open holds.
func (s *service) figures(ctx context.Context, card string, _ struct{}) (any, error) {
	ctx, stop := context.WithTimeout(ctx, deadline)
	defer stop()
	rules, err := s.cards.Remaining(ctx, "card:"+card)
	holds := []spend.Status{}
	for h, failed := range s.cards.Holds(ctx, "card:"+card) {
		holds, err = append(holds, h), errors.Join(err, failed)
	}
	return map[string]any{"rules": rules, "holds": holds}, err
}

// verdict tells how other rules would have decided.
type verdict struct {
	Decisions int64            `json:"decisions"`
	Approves  int64            `json:"approves"` // of the declined ones, and parts of others
	Refuses   map[string]int64 `json:"refuses"`  // of the approved ones, by rule
	Skipped   int64            `json:"skipped"`  // cards of which old entries are gone
}

// backtest decides the requests since a time anew by other rules, and changes nothing.
func (s *service) backtest(ctx context.Context, _ string, m trial) (any, error) {
	out := verdict{Refuses: make(map[string]int64)}
	err := s.cards.Backtest(ctx, spend.BacktestOptions{
		Rules: m.Rules, Since: m.Since,
		Flip: func(f spend.Flip) error {
			if f.Approved {
				out.Approves++
			}
			for _, rule := range f.Refused {
				out.Refuses[rule]++
			}
			return nil
		},
		Done: func(r spend.Replayed) error {
			out.Decisions += r.Decisions
			if r.Skipped != "" {
				out.Skipped++
			}
			return nil
		},
	})
	return out, err
}

// decode decodes a message, or answers that it cannot.
func decode[M any](w http.ResponseWriter, r *http.Request) (m M, ok bool) {
	body := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<16))
	body.DisallowUnknownFields()
	if err := body.Decode(&m); err != nil && !errors.Is(err, io.EOF) {
		fail(w, http.StatusBadRequest, err)
		return m, false
	}
	return m, true
}

// answer decodes a message, and answers it with the result of do.
func answer[M any](do func(ctx context.Context, of string, m M) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		m, ok := decode[M](w, r)
		if !ok {
			return
		}
		if body, err := do(r.Context(), r.PathValue("of"), m); err != nil {
			fail(w, status(err), err)
		} else {
			write(w, http.StatusOK, "application/json", body)
		}
	}
}

// handle decodes a message, and answers it with its decision. The key is the Idempotency-Key, and
// of is the authorization or the card in the path. If the client hangs up, the decision goes on.
func handle[M any](do func(ctx context.Context, key, of string, m M) (spend.Decision, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, stop := context.WithTimeout(context.WithoutCancel(r.Context()), deadline)
		defer stop()
		m, ok := decode[M](w, r)
		if !ok {
			return
		}
		d, err := do(ctx, r.Header.Get("Idempotency-Key"), r.PathValue("of"), m)
		switch {
		case err != nil:
			fail(w, status(err), err)
		case d.Approved:
			write(w, http.StatusOK, "application/json", d)
		default:
			if d.RetryAfter < brim.Never {
				w.Header().Set("Retry-After", strconv.FormatFloat(math.Ceil(d.RetryAfter.Seconds()), 'f', 0, 64))
			}
			write(w, http.StatusPaymentRequired, "application/problem+json", problem{
				Type: "urn:cardauth:declined", Title: "declined", Status: http.StatusPaymentRequired,
				Canceled: d.Canceled, Declines: d.Declines,
			})
		}
	}
}

// problem is a problem document of RFC 9457.
type problem struct {
	Type     string          `json:"type,omitempty"`
	Title    string          `json:"title"`
	Status   int             `json:"status"`
	Detail   string          `json:"detail,omitempty"`
	Canceled bool            `json:"canceled,omitempty"`
	Declines []spend.Decline `json:"declines,omitempty"`
}

// statuses are those of errors. After a 503, the same message with the same key tells the outcome.
var statuses = map[int][]error{
	http.StatusBadRequest:          {spend.ErrRequest, spend.ErrAmount, spend.ErrCurrency, spend.ErrBudget},
	http.StatusNotFound:            {spend.ErrUnknownSpend},
	http.StatusConflict:            {spend.ErrHoldEnded, spend.ErrHoldExpired, spend.ErrExceeds},
	http.StatusUnprocessableEntity: {spend.ErrIDReused},
	http.StatusServiceUnavailable:  {store.ErrUnavailable, store.ErrUnknownOutcome, context.DeadlineExceeded},
}

func status(err error) int {
	for status, errs := range statuses {
		for _, is := range errs {
			if errors.Is(err, is) {
				return status
			}
		}
	}
	return http.StatusInternalServerError
}

// fail answers with an error. The texts of brim's errors do not contain the card.
func fail(w http.ResponseWriter, status int, err error) {
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	write(w, status, "application/problem+json", problem{Title: http.StatusText(status), Status: status, Detail: err.Error()})
}

// write writes a body as JSON of some kind.
func write(w http.ResponseWriter, status int, kind string, body any) {
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // fails if the client has hung up
}
