// Command llmgateway stands in front of a language model's API and limits the tokens of each
// client.
//
//	go run ./examples/llmgateway -upstream https://api.example.com -store gateway.db
//
// A client names itself by a bearer token of the gateway's own. The gateway reads the fields
// max_tokens and stream of a request and the usage of the answer, as the APIs of most models have
// them. The store may be a file, or postgres://... or redis://... for several gateways; see package
// stores.
//
// Note five things. The cost of a call is known only afterwards, so the gateway holds the highest
// possible cost in the client's bucket before the call, and captures the real cost after it:
// clients that call at the same time cannot use more than their limit together. Draining the rest
// afterwards instead would take out units that have leaked meanwhile.
//
// A call ends at the API and not at the client. If the client leaves, the gateway reads the answer
// to its end, because its end tells the bill. If nobody can know that, because the answer
// was cut off or does not say it, the call counts as its highest cost. A call that never reached
// the API costs nothing, and neither does one that the API refused.
//
// The hold ends whatever happens to the call: on return, error and panic, and also if the client
// has gone. Only a gateway that is killed leaves the holds of its calls, which take up room until
// "brim reset" of their keys. Where that matters, use package spend, whose holds expire: see
// examples/agentbudget.
//
// And the bucket's key is a hash, because the store should not hold the tokens of clients.
package main

import (
	"bufio"
	"bytes"
	"context"
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
	"github.com/brimgo/brim/httplimit"
	"github.com/brimgo/brim/stores"
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
	name := flags.String("store", "memory:", "`name` of the store of the limits")
	tokens := flags.Float64("tokens", 100_000, "tokens per minute of a client")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *upstream == "" {
		return errors.New("-upstream is missing; pass the URL of the model's API")
	}
	db, err := stores.Open(ctx, *name, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	limit := brim.Over(*tokens, time.Minute)
	if err := limit.Validate(); err != nil {
		return err
	}
	server := &http.Server{Addr: *listen, ReadHeaderTimeout: 10 * time.Second, Handler: &gateway{
		lim: brim.New(db, nil), limit: limit, upstream: strings.TrimSuffix(*upstream, "/"),
		key: os.Getenv("UPSTREAM_KEY"), client: &http.Client{Timeout: 10 * time.Minute},
		patience: 30 * time.Second, log: slog.Default(),
	}}
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ended)
		_ = server.Shutdown(context.Background())
	})
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		stop()
		return err
	}
	<-ended // calls in flight end their holds before the store closes
	return nil
}

// gateway passes requests on, and counts their tokens.
type gateway struct {
	lim      *brim.Limiter
	limit    brim.Limit
	upstream string
	key      string // of the gateway, for the API
	client   *http.Client
	patience time.Duration // with a store that is away, at the end of a call
	log      *slog.Logger
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
	hash := sha256.Sum256([]byte(token))
	bucket := g.limit.For("client:" + hex.EncodeToString(hash[:8]))
	// From here on the client may leave, and the call must be settled all the same. If its leaving
	// ended the question to the store, nobody would know whether there is a hold.
	ctx := context.WithoutCancel(r.Context())
	st, err := g.lim.Hold(ctx, bucket, most)
	switch {
	case err != nil:
		g.log.Error("the limit could not be checked", "error", err)
		http.Error(w, "limits cannot be checked at the moment", http.StatusServiceUnavailable)
		return
	case !st.Accepted:
		httplimit.Refuse(w, st, most)
		return
	}
	c := &call{most: most}
	defer func() { g.settle(ctx, bucket, c) }() // also after a panic
	if r.Context().Err() == nil {
		g.forward(ctx, w, r.Method, r.URL.Path, body, c)
	}
}

// parse returns the body to send to the API, and the highest number of tokens that the call can
// use.
func parse(body []byte) (out []byte, most float64, err error) {
	var request struct {
		MaxTokens int64 `json:"max_tokens"`
		Stream    bool  `json:"stream"`
	}
	if err := json.Unmarshal(body, &request); err != nil || request.MaxTokens < 1 || request.MaxTokens > 1e12 {
		return nil, 0, errors.New("send JSON with max_tokens")
	}
	most = float64(len(body)) + float64(request.MaxTokens) // a token of a prompt has at least a byte
	if request.Stream {                                    // a stream says what it has used if it is asked
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
	most float64     // tokens
	sent atomic.Bool // to the API, perhaps
	used *float64    // as the API says it; nil if it has not said it
}

// cost returns the tokens that the API bills, or the most that it can bill.
func (c *call) cost() float64 {
	switch {
	case c.used != nil:
		return *c.used
	case c.sent.Load():
		return c.most
	}
	return 0
}

// settle ends the hold of a call. It tries again while the store is away.
func (g *gateway) settle(ctx context.Context, bucket brim.Bucket, c *call) {
	ctx, cancel := context.WithTimeout(ctx, g.patience)
	defer cancel()
	for {
		_, err := g.lim.Capture(ctx, bucket, c.most, c.cost())
		if err == nil {
			return
		}
		if errors.Is(err, brim.ErrUnavailable) {
			select {
			case <-time.After(g.patience / 100):
				continue
			case <-ctx.Done():
			}
		}
		g.log.Error("a call was not settled; see whether its tokens are still held", "key", bucket.Key,
			"held", c.most, "used", c.cost(), "error", err)
		return
	}
}

// forward passes a request on and writes the answer to w. It notes the cost of the call in c.
func (g *gateway) forward(ctx context.Context, w http.ResponseWriter, method, path string, body []byte, c *call) {
	trace := &httptrace.ClientTrace{WroteHeaders: func() { c.sent.Store(true) }}
	out, err := http.NewRequestWithContext(httptrace.WithClientTrace(ctx, trace), method, g.upstream+path, bytes.NewReader(body))
	if err != nil {
		http.Error(w, "the model's API has no such path", http.StatusNotFound)
		return
	}
	out.Header.Set("Content-Type", "application/json")
	out.Header.Set("Authorization", "Bearer "+g.key)
	resp, err := g.client.Do(out)
	if err != nil {
		g.log.Error("the API did not answer", "error", err)
		http.Error(w, "the model did not answer", http.StatusBadGateway)
		return
	}
	defer func() { _ = resp.Body.Close() }()
	kind := resp.Header.Get("Content-Type")
	if strings.HasPrefix(kind, "text/event-stream") {
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(resp.StatusCode)
		c.used, err = stream(w, resp.Body)
	} else {
		var answer []byte
		if answer, err = io.ReadAll(io.LimitReader(resp.Body, 64<<20)); err == nil {
			c.used = usage(answer)
			w.Header().Set("Content-Type", kind)
			w.WriteHeader(resp.StatusCode)
			_, _ = w.Write(answer) // the client may have gone
		} else {
			http.Error(w, "the model's answer was cut off", http.StatusBadGateway)
		}
	}
	if err != nil {
		g.log.Error("the API's answer was cut off", "error", err)
		return
	}
	if c.used == nil && resp.StatusCode >= 400 {
		c.used = new(float64) // the API refused the call
	}
}

// stream writes a stream of events to w, each when it comes, and reads on if the client has gone.
// It returns the last usage in the events, or nil. A stream that was cut off has used more.
func stream(w http.ResponseWriter, events io.Reader) (used *float64, err error) {
	lines := bufio.NewReader(events)
	for {
		line, err := lines.ReadBytes('\n')
		if data, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			if n := usage(data); n != nil {
				used = n
			}
		}
		_, _ = w.Write(line)
		_ = http.NewResponseController(w).Flush()
		switch {
		case err == io.EOF:
			return used, nil
		case err != nil:
			return nil, err
		}
	}
}

// usage returns the tokens that an answer or an event says were used, or nil.
func usage(data []byte) *float64 {
	var answer struct {
		Usage struct {
			TotalTokens *int64 `json:"total_tokens"`
		} `json:"usage"`
	}
	if err := json.Unmarshal(data, &answer); err != nil {
		return nil
	}
	n := answer.Usage.TotalTokens
	if n == nil || *n < 0 || *n > 1<<53 {
		return nil
	}
	used := float64(*n)
	return &used
}
