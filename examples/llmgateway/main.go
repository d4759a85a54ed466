// Command llmgateway stands in front of a language model's API and limits the cost of each client's
// calls.
//
//	go run ./examples/llmgateway -upstream https://api.example.com -file gateway.db
//
// A client names itself by a bearer token of the gateway's own. The gateway reads the fields
// max_tokens and stream of a request and the usage of the answer, as the APIs of most models have
// them. Several gateways keep their ledger in PostgreSQL: see package pgledger.
//
// Note five things. The cost of a call is known only afterwards, so the gateway holds the highest
// possible cost before the call, and captures the real cost after it: clients that call at the same
// time cannot use more than their limit together. A bucket would give the rest back afterwards,
// also the units that have leaked meanwhile.
//
// A call ends at the API and not at the client. If the client leaves, the gateway reads the answer
// to its end, because its end tells the bill. If nobody can know that, because the answer
// was cut off or does not say it, the call counts as its highest cost. A call that never reached
// the API costs nothing, and neither does one that the API refused.
//
// guard.Run ends the hold whatever happens to the call: on return, error and panic, and
// also if the client has gone. The hold of a long call is extended. If the gateway is killed, the
// hold expires, and the call counts as its highest cost.
//
// If the events of a stream tell the usage until then, it is captured before the event goes to the
// client. So the client has paid for all that it has got, also if the gateway is killed.
//
// And the account is a hash, because the ledger should not hold the tokens of clients.
package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptrace"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/bolt"
	"github.com/brimgo/brim/httplimit"
	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/boltledger"
	"github.com/brimgo/brim/spend/guard"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/spend/memledger"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "llmgateway:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) (err error) {
	flags := flag.NewFlagSet("llmgateway", flag.ContinueOnError)
	listen := flags.String("listen", "127.0.0.1:8080", "`address` to serve at")
	upstream := flags.String("upstream", "", "`URL` of the model's API")
	file := flags.String("file", "", "bbolt `file` of the ledger; without one, it is in memory")
	price := flags.Int64("price", 300, "price of a token, in millionths of a cent")
	cents := flags.Int64("limit", 30, "cents per minute of a client")
	revision := flags.Int64("revision", 0, "`number` of the limit; raise it with another -limit for the same -file")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *upstream == "" || *price < 1 {
		return errors.New("pass -upstream, the URL of the model's API, and a positive -price")
	}
	l := memledger.New(nil)
	if *file != "" {
		db, openErr := bolt.Open(*file, nil)
		if openErr != nil {
			return openErr
		}
		defer func() { err = errors.Join(err, db.Close()) }()
		if l, err = boltledger.New(db, nil); err != nil {
			return err
		}
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	g := &gateway{
		limit: money(*cents * 1_000_000), revision: *revision, price: *price, upstream: strings.TrimSuffix(*upstream, "/"),
		key: os.Getenv("UPSTREAM_KEY"), client: &http.Client{Timeout: 10 * time.Minute}, log: slog.Default(),
	}
	if err := g.use(ctx, l); err != nil {
		return err
	}
	server := &http.Server{Addr: *listen, ReadHeaderTimeout: 10 * time.Second, Handler: g}
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ended)
		_ = server.Shutdown(context.Background())
	})
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		stop()
		return err
	}
	<-ended // calls in flight end their holds before the ledger closes
	return nil
}

// gateway passes requests on, and counts their cost.
type gateway struct {
	budgets  *spend.Budgets
	limit    spend.Money // of a client, in a minute
	revision int64       // of the limit
	price    int64       // of a token
	upstream string
	key      string // of the gateway, for the API
	client   *http.Client
	log      *slog.Logger
}

// holdFor is the TTL of holds: so long after the gateway was killed, its calls are spent.
const holdFor = 30 * time.Second

// money is an amount in millionths of a cent.
func money(n int64) spend.Money { return spend.Money{Minor: n, Currency: "USD:8"} }

// use has the gateway keep its accounts in l.
func (g *gateway) use(ctx context.Context, l ledger.Ledger) (err error) {
	g.budgets, err = spend.New(ctx, l, spend.Budget{
		Name: "clients", Currency: "USD:8", Revision: g.revision, Rules: []spend.Rule{spend.Leaky("minute", g.limit, time.Minute)},
	}, nil)
	return err
}

// account returns the account of a client.
func account(token string) string {
	hash := sha256.Sum256([]byte(token))
	return hex.EncodeToString(hash[:8])
}

func (g *gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok || token == "" {
		http.Error(w, "name yourself by a bearer token", http.StatusUnauthorized)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
	if err != nil {
		http.Error(w, "the request could not be read", http.StatusBadRequest)
		return
	}
	body, most, err := parse(body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	request := spend.Request{ID: rand.Text(), Account: account(token), Amount: money(most * g.price), TTL: holdFor}
	request.OnExpiry = spend.SpendOnExpiry // a gateway that is killed may have made the call, and the API bills it
	// The client may leave, and the call goes on.
	ctx := context.WithoutCancel(r.Context())
	d, err := guard.Run(ctx, g.budgets, spend.UpToRequest{Request: request}, func(ctx context.Context, m *guard.Meter) (err error) {
		if r.Context().Err() != nil {
			return nil
		}
		c := &call{most: most, pay: func(tokens int64) error { return m.Use(money(tokens * g.price)) }}
		defer func() { err = errors.Join(err, c.reach(c.cost())) }() // also after a panic
		return g.forward(ctx, w, r.Method, r.URL.Path, body, c)
	})
	switch {
	case err != nil:
		g.log.Error("a call failed, or its cost was not counted", "error", err)
		if !d.Approved {
			http.Error(w, "limits cannot be checked at the moment", http.StatusServiceUnavailable)
		}
	case !d.Approved:
		st := brim.State{Capacity: float64(g.limit.Minor), RetryAfter: d.RetryAfter}
		httplimit.Refuse(w, st, float64(request.Amount.Minor))
	}
}

// parse returns the body to send to the API, and the highest number of tokens that the call can
// use.
func parse(body []byte) (out []byte, most int64, err error) {
	var request struct {
		MaxTokens int64 `json:"max_tokens"`
		Stream    bool  `json:"stream"`
	}
	if err := json.Unmarshal(body, &request); err != nil || request.MaxTokens < 1 || request.MaxTokens > 1e9 {
		return nil, 0, errors.New("send JSON with max_tokens")
	}
	most = int64(len(body)) + request.MaxTokens // a token of a prompt has at least a byte
	if request.Stream {                         // a stream says what it has used if it is asked
		fields := make(map[string]json.RawMessage)
		if err := json.Unmarshal(body, &fields); err != nil {
			return nil, 0, err
		}
		fields["stream_options"] = json.RawMessage(`{"include_usage": true}`)
		body, err = json.Marshal(fields)
	}
	return body, most, err
}

// call is the cost of a call.
type call struct {
	most int64       // tokens
	sent atomic.Bool // to the API, perhaps
	used *int64      // as the API says it; nil if it has not said it
	paid int64       // so far
	pay  func(tokens int64) error
}

// cost returns the tokens that the API bills, or the most that it can bill.
func (c *call) cost() int64 {
	switch {
	case c.used != nil:
		return *c.used
	case c.sent.Load():
		return c.most
	}
	return 0
}

// reach pays until so many tokens are paid.
func (c *call) reach(tokens int64) error {
	due := max(0, tokens-c.paid)
	c.paid += due
	return c.pay(due)
}

// forward passes a request on and writes the answer to w. It notes the cost of the call in c.
func (g *gateway) forward(ctx context.Context, w http.ResponseWriter, method, path string, body []byte, c *call) error {
	trace := &httptrace.ClientTrace{WroteHeaders: func() { c.sent.Store(true) }}
	out, err := http.NewRequestWithContext(httptrace.WithClientTrace(ctx, trace), method, g.upstream+path, bytes.NewReader(body))
	if err != nil {
		http.Error(w, "the model's API has no such path", http.StatusNotFound)
		return nil
	}
	out.Header.Set("Content-Type", "application/json")
	out.Header.Set("Authorization", "Bearer "+g.key)
	resp, err := g.client.Do(out)
	if err != nil {
		http.Error(w, "the model did not answer", http.StatusBadGateway)
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	kind := resp.Header.Get("Content-Type")
	if strings.HasPrefix(kind, "text/event-stream") {
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(resp.StatusCode)
		c.used, err = stream(w, resp.Body, c)
		if err == nil && c.used == nil && resp.StatusCode >= 400 {
			c.used = new(int64) // the API refused the call
		}
		return err
	}
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 64<<20))
	if err != nil {
		http.Error(w, "the model's answer was cut off", http.StatusBadGateway)
		return err
	}
	if c.used = usage(answer); c.used == nil && resp.StatusCode >= 400 {
		c.used = new(int64) // the API refused the call
	}
	if err = c.reach(c.cost()); err != nil {
		http.Error(w, "the answer could not be paid", http.StatusServiceUnavailable)
		return err
	}
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(resp.StatusCode)
	_, _ = w.Write(answer) // the client may have gone
	return nil
}

// stream writes a stream of events to w, each when it comes and its tokens are paid, and reads on
// if the client has gone. It returns the last usage in the events, or nil. A stream that was cut
// off has used more.
func stream(w http.ResponseWriter, events io.Reader, c *call) (used *int64, err error) {
	lines := bufio.NewReader(events)
	var unpaid error
	for {
		line, err := lines.ReadBytes('\n')
		if data, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			if n := usage(data); n != nil {
				used = n
				unpaid = errors.Join(unpaid, c.reach(*n))
			}
		}
		if unpaid == nil {
			_, _ = w.Write(line)
			_ = http.NewResponseController(w).Flush()
		}
		switch {
		case err == io.EOF:
			return used, unpaid
		case err != nil:
			return nil, err
		}
	}
}

// usage returns the tokens that an answer or an event says were used, or nil.
func usage(data []byte) *int64 {
	var answer struct {
		Usage struct {
			TotalTokens *int64 `json:"total_tokens"`
		} `json:"usage"`
	}
	if err := json.Unmarshal(data, &answer); err != nil {
		return nil
	}
	n := answer.Usage.TotalTokens
	if n == nil || *n < 0 || *n > 1e9 {
		return nil
	}
	return n
}
