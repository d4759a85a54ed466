package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/memledger"
)

// api answers calls of both dialects, and notes their headers.
type api struct {
	mu     sync.Mutex
	header []http.Header
	meets  func()
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	a.mu.Lock()
	a.header = append(a.header, r.Header.Clone())
	meets := a.meets
	a.mu.Unlock()
	if meets != nil {
		meets()
	}
	w.Header().Set("Content-Type", "application/json")
	switch r.URL.Path {
	case "/v1/chat/completions":
		fmt.Fprint(w, `{"object":"chat.completion","choices":[{"message":{"content":"hello"}}],"usage":{"prompt_tokens":20,"completion_tokens":30,"total_tokens":50}}`)
	case "/v1/messages":
		fmt.Fprint(w, `{"type":"message","content":[],"usage":{"input_tokens":20,"output_tokens":30}}`)
	default:
		fmt.Fprint(w, `{"data":[]}`)
	}
}

// over returns a gateway to a, with so many dollars a month on each level.
func over(t *testing.T, a *api, month string) *gateway {
	t.Helper()
	c, err := readConfig("testdata/config.json")
	if err != nil {
		t.Fatal(err)
	}
	c.Month.Key, c.Month.Team, c.Month.Org = month, month, month
	s := httptest.NewServer(a)
	t.Cleanup(s.Close)
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	g := &gateway{config: c, log: slog.New(slog.DiscardHandler), openai: &provider{u, "secret-o"}, anthropic: &provider{u, "secret-a"}}
	if err := g.use(t.Context(), memledger.New(nil), time.Minute); err != nil {
		t.Fatal(err)
	}
	return g
}

// ask makes a call for a client.
func ask(g *gateway, key, path, model string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(fmt.Sprintf(`{"model":%q,"max_tokens":100}`, model)))
	if path == "/v1/messages" {
		r.Header.Set("Anthropic-Version", "2023-06-01")
		r.Header.Set("X-Api-Key", key)
	} else {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	w := httptest.NewRecorder()
	g.ServeHTTP(w, r)
	return w
}

// told returns the figures that the gateway tells a client: those of its key, team and
// organization.
func told(t *testing.T, g *gateway, key string) []spend.Usage {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, "/budget", nil)
	r.Header.Set("Authorization", "Bearer "+key)
	w := httptest.NewRecorder()
	g.ServeHTTP(w, r)
	var list []spend.Usage
	if err := json.Unmarshal(w.Body.Bytes(), &list); err != nil || len(list) != 3 {
		t.Fatalf("%d %s: %v", w.Code, w.Body, err)
	}
	return list
}

func TestGateway(t *testing.T) {
	a := &api{}
	g := over(t, a, "5")
	for _, c := range []struct {
		why, key, path, model string
		status                int
		key1, key2, both      int64 // used afterwards, in millionths of a cent
	}{
		{"a call of 20 and 30 tokens", "sk-gateway-1", "/v1/chat/completions", "large", 200, 51_000, 0, 51_000},
		{"another key of the team, in the other dialect", "sk-gateway-2", "/v1/messages", "small", 200, 51_000, 6_500, 57_500},
		{"a stranger", "sk-other", "/v1/chat/completions", "large", 401, 51_000, 6_500, 57_500},
		{"nobody", "", "/v1/messages", "large", 401, 51_000, 6_500, 57_500},
		{"a model without a price", "sk-gateway-1", "/v1/chat/completions", "new", 400, 51_000, 6_500, 57_500},
		{"a batch", "sk-gateway-1", "/v1/batches", "large", 400, 51_000, 6_500, 57_500},
		{"a free request", "sk-gateway-1", "/v1/messages/count_tokens", "large", 200, 51_000, 6_500, 57_500},
	} {
		if w := ask(g, c.key, c.path, c.model); w.Code != c.status {
			t.Errorf("%s: %d, %s; want %d", c.why, w.Code, w.Body, c.status)
		}
		one, two := told(t, g, "sk-gateway-1"), told(t, g, "sk-gateway-2")
		for i, want := range []int64{c.key1, c.both, c.both} {
			if one[i].Used.Minor != want || one[i].Held.Minor != 0 || i > 0 && one[i] != two[i] {
				t.Errorf("%s: %s has used %v and holds %v; want %d", c.why, one[i].Budget, one[i].Used, one[i].Held, want)
			}
		}
		if two[0].Used.Minor != c.key2 {
			t.Errorf("%s: the second key has used %v; want %d", c.why, two[0].Used, c.key2)
		}
	}
	for i, h := range a.header {
		if text := fmt.Sprint(h); strings.Contains(text, "sk-gateway") || !strings.Contains(text, "secret-") {
			t.Errorf("call %d: the provider got %v", i, h)
		}
	}
	for e, err := range g.budgets.Export(t.Context(), spend.Entry{}) {
		if err != nil || strings.Contains(e.Account.Name, "sk-gateway") {
			t.Errorf("%v; the ledger holds the client's key: %q", err, e.Account.Name)
		}
	}
}

// TestOverBudget: clients that call at the same time cannot use more than their team has. A call is
// held at 0.001704 USD, and costs 0.00051.
func TestOverBudget(t *testing.T) {
	a := &api{}
	g := over(t, a, "0.004")
	meet := make(chan struct{})
	a.meets = func() { <-meet }
	codes := make(chan int, 8)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() { codes <- ask(g, fmt.Sprintf("sk-gateway-%d", i%2+1), "/v1/chat/completions", "large").Code })
	}
	for range 6 { // those that do not fit return at once
		if code := <-codes; code != http.StatusTooManyRequests {
			t.Errorf("a call beside two others: %d", code)
		}
	}
	close(meet)
	all.Wait()
	if used := told(t, g, "sk-gateway-1")[2].Used; used.Minor != 2*51_000 {
		t.Errorf("%v are used; want those of two calls", used)
	}
}

// TestRun starts the gateway over a file, stops it, and starts it with other limits.
func TestRun(t *testing.T) {
	file, path := filepath.Join(t.TempDir(), "gateway.db"), filepath.Join(t.TempDir(), "config.json")
	config, err := os.ReadFile("testdata/config.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		why, from, to string
		fails         bool // and the change is taken back, unless it is kept
		kept          bool
	}{
		{why: "the first start"},
		{why: "another one"},
		{why: "other limits under the same revision", from: `"key": "5"`, to: `"key": "6"`, fails: true, kept: true},
		{why: "other limits under a higher one", from: `"revision": 1`, to: `"revision": 2`},
		{why: "an unknown field", from: `"revision"`, to: `"version"`, fails: true},
		{why: "a price that is none", from: `"0.25"`, to: `"a"`, fails: true},
	} {
		changed := bytes.Replace(config, []byte(c.from), []byte(c.to), 1)
		if err := os.WriteFile(path, changed, 0o600); err != nil {
			t.Fatal(err)
		}
		if !c.fails || c.kept {
			config = changed
		}
		ctx, stop := context.WithCancel(t.Context())
		out, in := io.Pipe()
		ended := make(chan error)
		go func() {
			err := run(ctx, []string{"-config", path, "-file", file, "-listen", "127.0.0.1:0"}, in)
			in.CloseWithError(io.EOF)
			ended <- err
		}()
		var addr string
		if _, err := fmt.Fscanf(out, "serving at %s\n", &addr); err == nil {
			resp, err := http.Get("http://" + addr + "/v1/models")
			if err != nil || resp.StatusCode != http.StatusUnauthorized {
				t.Errorf("%s: %v, %v", c.why, resp, err)
			}
			if err == nil {
				resp.Body.Close()
			}
		}
		stop()
		if err := <-ended; (err != nil) != c.fails || (addr == "") != c.fails {
			t.Errorf("%s: %q, %v; want an error %v", c.why, addr, err, c.fails)
		}
	}
	for _, args := range [][]string{{}, {"-config", "testdata/config.json", "-openai", "nowhere"}, {"-config", "testdata/config.json", "-file", "/nowhere/gateway.db"}} {
		if err := run(t.Context(), args, io.Discard); err == nil {
			t.Errorf("%v: no error", args)
		}
	}
}
