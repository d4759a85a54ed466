// Command llmgateway stands in front of a language model's API and limits the tokens of each
// client.
//
//	go run ./examples/llmgateway -upstream https://api.example.com -store gateway.db
//
// A client names itself by a bearer token of the gateway's own. The gateway reads the field
// max_tokens of a request and the usage of the answer, as the APIs of most models have them. The
// store may be a file, or postgres://... or redis://... for several gateways; see package stores.
//
// Note four things. The cost of a call is known only afterwards, so the gateway puts the highest
// possible cost into the client's bucket before the call, and gives the rest back after it:
// clients that call at the same time cannot use more than their limit together. If a gateway dies
// meanwhile, the units that nobody gives back leak like all others. A failed call costs nothing.
// And the bucket's key is a hash, because the store should not hold the tokens of clients.
package main

import (
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
	"os"
	"os/signal"
	"strings"
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
		key: os.Getenv("UPSTREAM_KEY"), client: &http.Client{Timeout: 10 * time.Minute}, log: slog.Default(),
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
	<-ended // calls in flight give their tokens back before the store closes
	return nil
}

// gateway passes requests on, and counts their tokens.
type gateway struct {
	lim      *brim.Limiter
	limit    brim.Limit
	upstream string
	key      string // of the gateway, for the API
	client   *http.Client
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
	var request struct {
		MaxTokens int  `json:"max_tokens"`
		Stream    bool `json:"stream"`
	}
	if err := json.Unmarshal(body, &request); err != nil || request.MaxTokens < 1 || request.Stream {
		http.Error(w, "send JSON with max_tokens, and without stream", http.StatusBadRequest)
		return
	}
	hash := sha256.Sum256([]byte(token))
	bucket := g.limit.For("client:" + hex.EncodeToString(hash[:8]))
	// A token of a prompt has at least a byte.
	highest := float64(len(body) + request.MaxTokens)
	st, err := g.lim.TryFillup(r.Context(), bucket, highest)
	switch {
	case err != nil:
		g.log.Error("the limit could not be checked", "error", err)
		http.Error(w, "limits cannot be checked at the moment", http.StatusServiceUnavailable)
		return
	case !st.Accepted:
		httplimit.Refuse(w, st, highest)
		return
	}
	used := g.forward(w, r, body)
	// The client may have gone, and the rest must go back all the same.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), time.Second)
	defer cancel()
	if _, err := g.lim.Drain(ctx, bucket, max(0, highest-used)); err != nil {
		g.log.Error("unused tokens were not given back; they leak", "tokens", highest-used, "error", err)
	}
}

// forward passes a request on, writes the answer to w, and returns the tokens that the call used.
func (g *gateway) forward(w http.ResponseWriter, r *http.Request, body []byte) (used float64) {
	out, err := http.NewRequestWithContext(r.Context(), r.Method, g.upstream+r.URL.Path, bytes.NewReader(body))
	if err == nil {
		out.Header.Set("Content-Type", "application/json")
		out.Header.Set("Authorization", "Bearer "+g.key)
		var resp *http.Response
		if resp, err = g.client.Do(out); err == nil {
			defer func() { _ = resp.Body.Close() }()
			return g.answer(w, resp)
		}
	}
	g.log.Error("the API did not answer", "error", err)
	http.Error(w, "the model did not answer", http.StatusBadGateway)
	return 0
}

// answer writes the API's answer to w, and returns the tokens that it says were used.
func (g *gateway) answer(w http.ResponseWriter, resp *http.Response) (used float64) {
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		g.log.Error("the API's answer was cut off", "error", err)
		http.Error(w, "the model's answer was cut off", http.StatusBadGateway)
		return 0
	}
	var answer struct {
		Usage struct {
			TotalTokens float64 `json:"total_tokens"`
		} `json:"usage"`
	}
	if err := json.Unmarshal(body, &answer); err == nil && resp.StatusCode < 300 {
		used = answer.Usage.TotalTokens
	}
	w.Header().Set("Content-Type", resp.Header.Get("Content-Type"))
	w.WriteHeader(resp.StatusCode)
	_, _ = w.Write(body) // the client may have gone
	return used
}
