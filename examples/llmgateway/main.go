// Command llmgateway stands in front of the APIs of language models and keeps the calls of each
// key, of its team and of its organization within a budget of money a month.
//
//	go run ./examples/llmgateway -config examples/llmgateway/testdata/config.json -file gateway.db
//
// Clients use the SDK of the provider with the gateway's address and a key of the gateway's own. A
// request with a header Anthropic-Version goes to Anthropic, and every other one to OpenAI, or to
// any server that speaks its dialect. The keys of the providers are in OPENAI_API_KEY and
// ANTHROPIC_API_KEY. GET /budget tells a client the remaining money of its key, team and
// organization.
//
// Note three things. Package llmlimit does the work: it holds the most that a call can cost on all
// levels in one decision, and charges its bill. With Drain, the gateway reads the answer of a
// client who has left, because the provider bills it, and its end tells the bill. And the account
// is a hash, because the ledger should not hold the keys of clients.
//
// Several gateways keep their ledger in PostgreSQL: see package pgledger.
package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/brimgo/brim/bolt"
	"github.com/brimgo/brim/llmlimit"
	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/boltledger"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/spend/memledger"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "llmgateway:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	flags := flag.NewFlagSet("llmgateway", flag.ContinueOnError)
	listen := flags.String("listen", "127.0.0.1:8080", "`address` to serve at")
	path := flags.String("config", "", "JSON `file` with the limits, the keys of clients and the prices of models")
	file := flags.String("file", "", "bbolt `file` of the ledger; without one, it is in memory")
	openai := flags.String("openai", "https://api.openai.com", "`URL` of the API of OpenAI")
	anthropic := flags.String("anthropic", "https://api.anthropic.com", "`URL` of the API of Anthropic")
	ttl := flags.Duration("ttl", 30*time.Second, "time after which the calls of a killed gateway count as their highest cost")
	if err := flags.Parse(args); err != nil {
		return err
	}
	c, err := readConfig(*path)
	if err != nil {
		return err
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
	g := &gateway{config: c, log: slog.Default()}
	for _, p := range []struct {
		to  **provider
		url string
		key string
	}{{&g.openai, *openai, os.Getenv("OPENAI_API_KEY")}, {&g.anthropic, *anthropic, os.Getenv("ANTHROPIC_API_KEY")}} {
		u, err := url.Parse(p.url)
		if err != nil || u.Host == "" {
			return fmt.Errorf("%q is no URL of an API", p.url)
		}
		*p.to = &provider{url: u, key: p.key}
	}
	if err := g.use(ctx, l, *ttl); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "serving at", listener.Addr())
	server := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: g}
	ended := make(chan struct{})
	context.AfterFunc(ctx, func() {
		defer close(ended)
		_ = server.Shutdown(context.Background())
	})
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	<-ended // calls in flight are charged before the ledger closes
	return nil
}

// config is the content of the file.
type config struct {
	// Revision is the number of the limits. Raise it with each change of Month for the same ledger.
	Revision int64 `json:"revision"`
	// Month has the dollars of each key, team and organization in a month.
	Month struct {
		Key  string `json:"key"`
		Team string `json:"team"`
		Org  string `json:"org"`
	} `json:"month"`
	// Keys has the team and the organization of each key of the gateway.
	Keys map[string]struct {
		Team string `json:"team"`
		Org  string `json:"org"`
	} `json:"keys"`
	// Models has the dollars of a million tokens, by the names of models.
	Models map[string]struct {
		Input          string `json:"input"`
		CacheRead      string `json:"cache_read"`
		CacheWrite     string `json:"cache_write"`
		CacheWriteLong string `json:"cache_write_long"`
		Output         string `json:"output"`
		Window         int64  `json:"window"`
		MaxOutput      int64  `json:"max_output"`
		Image          int64  `json:"image"`
	} `json:"models"`
}

func readConfig(path string) (*config, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("pass -config, a file with limits, keys and models: %w", err)
	}
	defer func() { _ = f.Close() }()
	d := json.NewDecoder(f)
	d.DisallowUnknownFields()
	c := &config{}
	if err := d.Decode(c); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// unit is a millionth of a cent: the price of a token is a whole number of it.
const unit = "USD:8"

// models returns the prices of the models.
func (c *config) models() (map[string]llmlimit.Model, error) {
	models := make(map[string]llmlimit.Model)
	for name, m := range c.Models {
		out := llmlimit.Model{Window: m.Window, MaxOutput: m.MaxOutput, Image: m.Image}
		for _, p := range []struct {
			to   *spend.Money
			from string
		}{
			{&out.Price.Input, m.Input},
			{&out.Price.Output, m.Output},
			{&out.Price.CacheRead, m.CacheRead},
			{&out.Price.CacheWrite, m.CacheWrite},
			{&out.Price.CacheWriteLong, m.CacheWriteLong},
		} {
			if p.from == "" && p.to != &out.Price.Input {
				continue // the price of the input
			}
			var err error
			if *p.to, err = spend.ParseMoney(p.from, unit); err != nil {
				return nil, fmt.Errorf("the model %q: %w", name, err)
			}
		}
		models[name] = out
	}
	return models, nil
}

// gateway passes calls on.
type gateway struct {
	*config
	budgets           *spend.Budgets
	openai, anthropic *provider
	proxy             *httputil.ReverseProxy
	log               *slog.Logger
}

type provider struct {
	url *url.URL
	key string
}

// use has the gateway keep its accounts in l.
func (g *gateway) use(ctx context.Context, l ledger.Ledger, ttl time.Duration) error {
	var budgets []spend.Budget
	for _, b := range []struct{ name, month string }{{"keys", g.Month.Key}, {"teams", g.Month.Team}, {"orgs", g.Month.Org}} {
		limit, err := spend.ParseMoney(b.month, unit)
		if err != nil {
			return fmt.Errorf("the limit of %s: %w", b.name, err)
		}
		budgets = append(budgets, spend.Budget{
			Name: b.name, Currency: unit, Revision: g.Revision,
			Rules: []spend.Rule{spend.Calendar("month", limit, spend.Month, time.UTC)},
		})
	}
	models, err := g.models()
	if err != nil {
		return err
	}
	if g.budgets, err = spend.New(ctx, l, budgets[0], &spend.Options{Budgets: budgets[1:]}); err != nil {
		return err
	}
	calls := llmlimit.New(g.budgets, func(name string) (llmlimit.Model, bool) {
		m, ok := models[name]
		return m, ok
	}, &llmlimit.Options{Drain: true, TTL: ttl, Done: g.done})
	g.proxy = &httputil.ReverseProxy{Transport: calls, Rewrite: g.rewrite, ErrorLog: slog.NewLogLogger(g.log.Handler(), slog.LevelWarn)}
	return nil
}

// done logs the calls whose cost nobody knows, or that could not be charged.
func (g *gateway) done(c llmlimit.Call) {
	if !c.Known || c.Err != nil {
		g.log.Warn("a call was charged its highest cost, or not charged", "id", c.ID, "model", c.Model, "charged", c.Charged.String(), "error", c.Err)
	}
}

// account returns the account of a key.
func account(key string) string {
	hash := sha256.Sum256([]byte(key))
	return hex.EncodeToString(hash[:8])
}

// clientKey returns the key of a request, as the SDKs of OpenAI and Anthropic send it.
func clientKey(r *http.Request) string {
	if key, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		return key
	}
	return r.Header.Get("X-Api-Key")
}

func (g *gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	key := clientKey(r)
	who, ok := g.Keys[key]
	if !ok {
		refuse(w, http.StatusUnauthorized, "authentication_error", "name yourself by a key of this gateway")
		return
	}
	levels := []spend.Account{{Budget: "keys", Name: account(key)}, {Budget: "teams", Name: who.Team}, {Budget: "orgs", Name: who.Org}}
	if r.Method == http.MethodGet && r.URL.Path == "/budget" {
		g.tell(w, r, levels)
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, 32<<20)
	g.proxy.ServeHTTP(w, r.WithContext(llmlimit.For(r.Context(), levels[0].Name, levels[1:]...)))
}

// rewrite sends a request to its provider, with the gateway's key in the place of the client's.
func (g *gateway) rewrite(p *httputil.ProxyRequest) {
	to := g.openai
	if p.In.Header.Get("Anthropic-Version") != "" {
		to = g.anthropic
	}
	p.SetURL(to.url)
	p.Out.Header.Del("Authorization")
	p.Out.Header.Del("X-Api-Key")
	if to == g.anthropic {
		p.Out.Header.Set("X-Api-Key", to.key)
	} else {
		p.Out.Header.Set("Authorization", "Bearer "+to.key)
	}
}

// tell writes the figures of the levels.
func (g *gateway) tell(w http.ResponseWriter, r *http.Request, levels []spend.Account) {
	var list []spend.Usage
	for _, a := range levels {
		b, err := g.budgets.ForBudget(r.Context(), a.Budget)
		if err == nil {
			var figures []spend.Usage
			figures, err = b.Remaining(r.Context(), a.Name)
			list = append(list, figures...)
		}
		if err != nil {
			g.log.Error("the budget cannot be told", "error", err)
			refuse(w, http.StatusServiceUnavailable, "overloaded_error", "the budget cannot be told at the moment")
			return
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(list) // the client may have gone
}

// refuse writes an error that the SDKs of OpenAI and Anthropic understand.
func refuse(w http.ResponseWriter, status int, kind, text string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"type": "error", "error": map[string]any{"type": kind, "message": text}})
}
