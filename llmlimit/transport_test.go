package llmlimit

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/memory"
	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/spend/memledger"
	"github.com/brimgo/brim/store"
)

func TestMain(m *testing.M) {
	code := m.Run()
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Println(err)
		code = 1
	}
	os.Exit(code)
}

// levels are the accounts of a call: a key, its team and its organization.
var levels = []spend.Account{{Budget: "keys", Name: "key:7"}, {Budget: "teams", Name: "red"}, {Budget: "orgs", Name: "acme"}}

func inLevels(ctx context.Context) context.Context { return For(ctx, levels[0].Name, levels[1:]...) }

// world has budgets on three levels, and a provider.
type world struct {
	t       *testing.T
	ledger  ledger.Ledger
	budgets *spend.Budgets
	url     string
	calls   atomic.Int64 // that the provider got

	mu   sync.Mutex
	done []Call
}

// newWorld returns budgets of so many tokens a month, and a provider that answers by h.
func newWorld(t *testing.T, l ledger.Ledger, limit int64, h http.HandlerFunc) *world {
	t.Helper()
	w := &world{t: t, ledger: l}
	budget := func(name string) spend.Budget {
		return spend.Budget{Name: name, Currency: "USD:8", Rules: []spend.Rule{
			spend.Calendar("month", spend.Money{Minor: limit, Currency: "USD:8"}, spend.Month, time.UTC),
		}}
	}
	var err error
	w.budgets, err = spend.New(t.Context(), l, budget("keys"), &spend.Options{Budgets: []spend.Budget{budget("teams"), budget("orgs")}})
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.calls.Add(1)
		h(rw, r)
	}))
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	s.Start()
	t.Cleanup(s.Close)
	w.url = s.URL
	return w
}

// transport returns a Transport over the budgets, whose tokens cost a millionth of a cent.
func (w *world) transport(o Options) *Transport {
	o.Done = func(c Call) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.done = append(w.done, c)
	}
	return New(w.budgets, func(name string) (Model, bool) {
		return Model{Price: plainPrice, Window: 100_000, MaxOutput: 1000, Extra: usd("0.00001")}, name != "stranger"
	}, &o)
}

// paid returns the used and held tokens, which are the same on all levels.
func (w *world) paid() (used, held int64) {
	w.t.Helper()
	for i, a := range levels {
		b, err := w.budgets.With(w.ledger).ForBudget(w.t.Context(), a.Budget)
		if err != nil {
			w.t.Fatal(err)
		}
		list, err := b.Remaining(w.t.Context(), a.Name)
		if err := errors.Join(err, b.Verify(w.t.Context(), a.Name)); err != nil {
			w.t.Fatal(err)
		}
		u := list[0]
		if i > 0 && (u.Used.Minor != used || u.Held.Minor != held) {
			w.t.Errorf("%s: %v used, %v held; the level before has %d and %d", a.Budget, u.Used, u.Held, used, held)
		}
		used, held = u.Used.Minor, u.Held.Minor
	}
	return used, held
}

// post makes a call and reads its answer.
func (w *world) post(ctx context.Context, t http.RoundTripper, path, body string) (*http.Response, string, error) {
	w.t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	resp, err := t.RoundTrip(r)
	if err != nil {
		return nil, "", err
	}
	text, err := io.ReadAll(resp.Body)
	return resp, string(text), errors.Join(err, resp.Body.Close())
}

// say answers with a status and a body.
func say(status int, kind, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// cutOff answers with a body that breaks off.
func cutOff(kind, body string) http.HandlerFunc { return cutOffStatus(200, kind, body) }

func cutOffStatus(status int, kind, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
}

const (
	jsonType  = "application/json"
	chatPath  = "/v1/chat/completions"
	askChat   = `{"model":"m","max_tokens":100}`
	askSearch = `{"model":"m","max_tokens":100,"tools":[{"type":"web_search_20260209","name":"web_search"}]}`
	askAll    = `{"model":"m","max_tokens":100,"stream":true,"stream_options":{"include_usage":true}}`
	heldChat  = int64(len(askChat) + 100)
	okChat    = `{"object":"chat.completion","choices":[{}],"usage":{"prompt_tokens":20,"completion_tokens":30,"total_tokens":50}}`
	refusing  = `{"error":{"message":"m","type":"server_error"}}`
)

// TestCharges compares the charge of a call with its bill, for each way in which it can end.
func TestCharges(t *testing.T) {
	for _, c := range []struct {
		why        string
		path, body string // of the request; askChat by default
		answer     http.HandlerFunc
		want       int64
		above      bool // nobody can know the bill
		fails      bool // the caller gets an error
		status     int  // 200 by default
	}{
		{why: "a whole answer", answer: say(200, jsonType, okChat), want: 50},
		{why: "more than was held is charged, too", answer: say(200, jsonType, strings.ReplaceAll(okChat, "30", "3000")), want: 3020},
		{why: "a stream", body: askAll, answer: say(200, sse, events(chatChunk, chatUsage, "[DONE]")), want: 50},
		{why: "a stream of Anthropic", path: "/v1/messages", body: askChat, answer: say(200, sse, events(claudeHead, claudeText, claudeTail, claudeStop)), want: 160},
		{
			why: "searches whose price nobody has told are held", path: "/v1/messages", body: askSearch,
			answer: say(200, jsonType, `{"type":"message","stop_reason":"end_turn","usage":{"input_tokens":5,"output_tokens":9,"server_tool_use":{"web_search_requests":2}}}`),
			want:   int64(len(askSearch) + 100 + 2048 + 1000), above: true,
		},
		{why: "a stream of Responses with a price of its own is held", path: "/v1/responses", body: `{"model":"m","max_output_tokens":100}`, answer: say(200, sse, events(`response.completed {"type":"response.completed","response":`+respUsage+`}`)), want: 137, above: true},
		{why: "a stream of Gemini", path: "/v1beta/models/m:streamGenerateContent?alt=sse", body: `{"generationConfig":{"maxOutputTokens":100}}`, answer: say(200, sse, events(geminiPart, geminiLast)), want: 22},
		{why: "an answer without a usage", answer: say(200, jsonType, `{"object":"chat.completion"}`), want: heldChat, above: true},
		{why: "a usage that cannot be", answer: say(200, jsonType, strings.ReplaceAll(okChat, "30", "-30")), want: heldChat, above: true},
		{why: "audio has no price", answer: say(200, jsonType, strings.ReplaceAll(okChat, `"total_tokens"`, `"completion_tokens_details":{"audio_tokens":3},"total_tokens"`)), want: heldChat, above: true},
		{why: "a whole answer is cut off", answer: func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "1000")
			say(200, jsonType, okChat[:20])(w, r)
		}, want: heldChat, above: true, fails: true},
		{why: "a stream is cut off before its usage", body: askAll, answer: cutOff(sse, events(chatChunk)), want: int64(len(askAll) + 100), above: true, fails: true},
		{why: "a stream is cut off when the input is known", path: "/v1/messages", answer: cutOff(sse, events(claudeHead[:strings.Index(claudeHead, `"cache_read`)]+`"output_tokens":1}}}`)), want: 120, above: true, fails: true},
		{why: "but never above the hold", path: "/v1/messages", body: askChat, answer: cutOff(sse, events(claudeHead)), want: heldChat, above: true, fails: true},
		{why: "an error in the stream", path: "/v1/messages", answer: say(200, sse, events(claudeHead[:strings.Index(claudeHead, `"cache_read`)]+`"output_tokens":1}}}`, `error {"type":"error","error":{"type":"overloaded_error","message":"m"}}`)), want: 120, above: true},
		{why: "the provider dies without an answer", answer: func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, want: heldChat, above: true, fails: true},
		{why: "the provider refuses the request", answer: say(400, jsonType, refusing), status: 400},
		{why: "the provider refuses the key, in whatever form", answer: say(401, "text/plain", "no"), status: 401},
		{why: "the provider has no room", answer: say(429, jsonType, refusing), status: 429},
		{why: "somebody has waited too long", answer: say(408, jsonType, refusing), want: heldChat, above: true, status: 408},
		{why: "a proxy has closed the request", answer: say(499, jsonType, ""), want: heldChat, above: true, status: 499},
		{why: "the provider fails, and says so", answer: say(500, jsonType, refusing), status: 500},
		{why: "the provider is overloaded", path: "/v1/messages", answer: say(529, jsonType, `{"type":"error","error":{"type":"overloaded_error","message":"m"}}`), status: 529},
		{why: "a proxy fails after the call", answer: say(502, "text/html", "<html>bad gateway</html>"), want: heldChat, above: true, status: 502},
		{why: "an error in another dialect is that of a proxy", path: "/v1/messages", answer: say(500, jsonType, refusing), want: heldChat, above: true, status: 500},
		{why: "a redirect", answer: say(307, "text/plain", ""), status: 307},
	} {
		t.Run(c.why, func(t *testing.T) {
			w := newWorld(t, memledger.New(nil), 1_000_000, c.answer)
			if c.path == "" {
				c.path = chatPath
			}
			if c.body == "" {
				c.body = askChat
			}
			if c.status == 0 {
				c.status = 200
			}
			resp, _, err := w.post(inLevels(t.Context()), w.transport(Options{}), c.path, c.body)
			if (err != nil) != c.fails || resp != nil && resp.StatusCode != c.status {
				t.Errorf("%+v, %v; want %d, an error %v", resp, err, c.status, c.fails)
			}
			if used, held := w.paid(); used != c.want || held != 0 {
				t.Errorf("%d are charged, and %d held; want %d", used, held, c.want)
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			if len(w.done) != 1 || w.done[0].Known == c.above || w.done[0].Charged.Minor != c.want || w.done[0].Err != nil {
				t.Errorf("told %+v; want one call, known %v", w.done, !c.above)
			}
		})
	}
}

// TestHeld: the money is held on all levels while a call runs, and charged before its end is seen.
func TestHeld(t *testing.T) {
	var w *world
	var during int64
	w = newWorld(t, memledger.New(nil), 1000, func(rw http.ResponseWriter, r *http.Request) {
		if _, held := w.paid(); held > during {
			during = held
		}
		say(200, jsonType, okChat)(rw, r)
	})
	calls := w.transport(Options{})
	if _, _, err := w.post(inLevels(t.Context()), calls, chatPath, askChat); err != nil || during != heldChat {
		t.Errorf("%v; %d are held during the call; want %d", err, during, heldChat)
	}
	if used, _ := w.paid(); used != 50 {
		t.Errorf("%d are used at the end of the answer; want 50", used)
	}
	// The SDKs' retry must not meet the hold of its first attempt.
	for range 20 {
		_, _, _ = w.post(inLevels(t.Context()), calls, chatPath, strings.Replace(askChat, "100", "900", 1)) // most are refused
	}
	if used, held := w.paid(); used != 100 || held != 0 { // one fits, 900 and 30 of 950
		t.Errorf("%d are used and %d held; want 100", used, held)
	}
}

// TestPasses: bytes and headers pass in both directions, but for the request for compression.
func TestPasses(t *testing.T) {
	for _, c := range []struct{ why, path, body string }{
		{"a call", chatPath, `{ "model":"m", "max_tokens":1, "temperature":0.50, "x":"\u00e9\ud83d\ude00" }`},
		{"a free request", "/v1/files", "not\x00JSON"},
		{"a stream that asks for its usage", chatPath, `{"model":"m","max_tokens":1,"stream":true,"stream_options":{"include_usage":true}}`},
	} {
		var got []byte
		var header http.Header
		answer := events(chatChunk, chatUsage, "[DONE]")
		w := newWorld(t, memledger.New(nil), 1_000_000, func(rw http.ResponseWriter, r *http.Request) {
			got, _ = io.ReadAll(r.Body)
			header = r.Header.Clone()
			rw.Header().Set("X-Request-Id", "r1")
			say(200, sse, answer)(rw, r)
		})
		r, _ := http.NewRequestWithContext(inLevels(t.Context()), http.MethodPost, w.url+c.path, strings.NewReader(c.body))
		r.Header.Set("Anthropic-Beta", "b")
		r.Header.Set("Accept-Encoding", "gzip, br, zstd")
		resp, err := w.transport(Options{}).RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		back, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || string(back) != answer || string(got) != c.body || header.Get("Anthropic-Beta") != "b" || resp.Header.Get("X-Request-Id") != "r1" {
			t.Errorf("%s: the provider got %q, %v; the caller %q, %v", c.why, got, header, back, err)
		}
		if c.path == chatPath && header.Get("Accept-Encoding") != "gzip" || r.Header.Get("Accept-Encoding") != "gzip, br, zstd" {
			t.Errorf("%s: the provider is asked for %q", c.why, header.Get("Accept-Encoding"))
		}
	}
}

// TestHides: a caller that has not asked for the usage of its stream does not see it, however the
// stream is cut into reads.
func TestHides(t *testing.T) {
	azure := `{"choices":[],"prompt_filter_results":[],"usage":null}`
	for _, end := range []string{"\n", "\r\n"} {
		lines := func(s string) string { return strings.ReplaceAll(s, "\n", end) }
		w := newWorld(t, memledger.New(nil), 1_000_000, func(rw http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			if !bytes.Contains(body, []byte(`"include_usage":true`)) {
				t.Errorf("the provider got %s", body)
			}
			rw.Header().Set("Content-Type", sse)
			for _, b := range []byte(lines(events(azure, chatChunk, chatUsage, "[DONE]"))) {
				_, _ = rw.Write([]byte{b})
				_ = http.NewResponseController(rw).Flush()
			}
		})
		_, text, err := w.post(inLevels(t.Context()), w.transport(Options{}), chatPath, `{"model":"m","max_tokens":100,"stream":true}`)
		if want := lines(events(azure, chatChunk, "[DONE]")); text != want || err != nil {
			t.Errorf("the caller got\n%q, %v; want\n%q", text, err, want)
		}
		if used, held := w.paid(); used != 50 || held != 0 {
			t.Errorf("%d are used and %d held; want 50", used, held)
		}
	}
}

// FuzzHides cuts arbitrary streams into reads. The caller gets the events in their order, without
// those that only tell a usage, and every byte of the others.
func FuzzHides(f *testing.F) {
	f.Add([]byte(events(chatChunk, chatUsage, "[DONE]")), 3)
	f.Add([]byte("data: a\r\n\r\n\n\ndata: {\"choices\":[],\"usage\":{}}"), 1)
	f.Fuzz(func(t *testing.T, stream []byte, size int) {
		size = 1 + max(0, size)%64
		read := func(size int) (got, seen string) {
			h := &hider{from: bytes.NewReader(stream)}
			p := make([]byte, size)
			for {
				n, err := h.read(p, func(b []byte, _ error) { seen += string(b) })
				if got += string(p[:n]); err != nil {
					return got, seen
				}
			}
		}
		got, seen := read(size)
		whole, _ := read(1 << 16)
		if got != whole || seen != string(stream) {
			t.Errorf("%q: read by %d bytes %q, at once %q; the reader saw %q", stream, size, got, whole, seen)
		}
		if !bytes.Contains(stream, []byte(`"usage"`)) && got != string(stream) {
			t.Errorf("%q: the caller got %q", stream, got)
		}
	})
}

// TestCompressed: an answer that http.Transport decompresses is read, and one that stays compressed
// is charged at the most.
func TestCompressed(t *testing.T) {
	zip := func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", jsonType)
		rw.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(rw)
		_, _ = io.WriteString(z, okChat)
		_ = z.Close()
	}
	plain := &http.Transport{DisableCompression: true}
	defer plain.CloseIdleConnections()
	for _, c := range []struct {
		base http.RoundTripper
		want int64
	}{{nil, 50}, {plain, heldChat}} {
		w := newWorld(t, memledger.New(nil), 1000, zip)
		_, _, err := w.post(inLevels(t.Context()), w.transport(Options{Base: c.base}), chatPath, askChat)
		if used, _ := w.paid(); err != nil || used != c.want {
			t.Errorf("%v: %d are charged; want %d", err, used, c.want)
		}
	}
}

type baseFunc func(r *http.Request) (*http.Response, error)

func (f baseFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestNotSent: an error costs nothing only if nothing was sent for certain.
func TestNotSent(t *testing.T) {
	w := newWorld(t, memledger.New(nil), 1000, say(200, jsonType, okChat))
	calls := w.transport(Options{})
	url := w.url
	w.url = "http://127.0.0.1:1"
	if _, _, err := w.post(inLevels(t.Context()), calls, chatPath, askChat); err == nil {
		t.Error("no error")
	}
	w.url = url
	if used, held := w.paid(); used != 0 || held != 0 {
		t.Errorf("nobody listens, and %d are charged and %d held", used, held)
	}
	gone, cancel := context.WithCancel(inLevels(t.Context()))
	cancel()
	if _, _, err := w.post(gone, calls, chatPath, askChat); !errors.Is(err, context.Canceled) || w.calls.Load() != 0 {
		t.Errorf("the caller has left: %v, %d calls", err, w.calls.Load())
	}
	if used, held := w.paid(); used != 0 || held != 0 {
		t.Errorf("the caller has left before, and %d are charged and %d held", used, held)
	}
	silent := w.transport(Options{Base: baseFunc(func(*http.Request) (*http.Response, error) { return nil, errors.New("test: broken") })})
	if _, _, err := w.post(inLevels(t.Context()), silent, chatPath, askChat); err == nil {
		t.Error("no error")
	}
	if used, held := w.paid(); used != heldChat || held != 0 {
		t.Errorf("a base that says nothing: %d are charged and %d held; want %d", used, held, heldChat)
	}
	func() {
		defer func() { _ = recover() }()
		_, _, _ = w.post(inLevels(t.Context()), w.transport(Options{Base: baseFunc(func(*http.Request) (*http.Response, error) { panic("broken") })}), chatPath, askChat)
	}()
	if used, held := w.paid(); used != 2*heldChat || held != 0 {
		t.Errorf("a base that panics: %d are charged and %d held; want %d", used, held, 2*heldChat)
	}
	empty := w.transport(Options{Base: baseFunc(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusBadRequest}, nil
	})})
	if _, _, err := w.post(inLevels(t.Context()), empty, chatPath, askChat); err != nil {
		t.Error(err)
	}
	if used, held := w.paid(); used != 2*heldChat || held != 0 {
		t.Errorf("an answer without a body: %d are charged and %d held; want %d", used, held, 2*heldChat)
	}
}

// TestIdempotencyKey: http.Transport must not send a request again by itself that was billed.
func TestIdempotencyKey(t *testing.T) {
	w := newWorld(t, memledger.New(nil), 100_000, func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/files" {
			return // leaves a connection that is used again
		}
		_, _ = io.Copy(io.Discard, r.Body)
		panic(http.ErrAbortHandler)
	})
	base := &http.Transport{}
	defer base.CloseIdleConnections()
	calls := w.transport(Options{Base: base})
	if _, _, err := w.post(t.Context(), calls, "/v1/files", ""); err != nil {
		t.Fatal(err)
	}
	w.calls.Store(0)
	r, _ := http.NewRequestWithContext(inLevels(t.Context()), http.MethodPost, w.url+chatPath, strings.NewReader(askChat))
	r.Header.Set("Idempotency-Key", "k")
	if resp, err := calls.RoundTrip(r); err == nil {
		resp.Body.Close()
		t.Error("no error")
	}
	if used, _ := w.paid(); w.calls.Load() != 1 || used != heldChat {
		t.Errorf("%d calls reached the provider, and %d are charged; want 1 and %d", w.calls.Load(), used, heldChat)
	}
}

// TestLeaves: the caller leaves in the middle of a stream. A program's call stops, and costs its
// input and its most output. A gateway reads on.
func TestLeaves(t *testing.T) {
	for _, drain := range []bool{false, true} {
		for _, how := range []string{"cancel", "close", "cancel and close", "cancel before the answer"} {
			next := make(chan struct{})
			w := newWorld(t, memledger.New(nil), 100_000, func(rw http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				rw.Header().Set("Content-Type", sse)
				if how == "cancel before the answer" {
					next <- struct{}{}
				}
				_, _ = io.WriteString(rw, events(claudeHead))
				_ = http.NewResponseController(rw).Flush()
				<-next
				_, _ = io.WriteString(rw, events(claudeText, claudeTail, claudeStop))
			})
			ctx, cancel := context.WithCancel(inLevels(t.Context()))
			if how == "cancel before the answer" {
				go func() { <-next; cancel(); close(next) }()
			}
			r, _ := http.NewRequestWithContext(ctx, http.MethodPost, w.url+"/v1/messages", strings.NewReader(`{"model":"m","max_tokens":500}`))
			resp, err := w.transport(Options{Drain: drain}).RoundTrip(r)
			want := int64(530) // the hold, which the input with the tokens of the cache and the most output exceed
			if drain {
				want = 160
			}
			if how != "cancel before the answer" {
				if err != nil {
					t.Fatal(err)
				}
				if _, err := io.ReadFull(resp.Body, make([]byte, 10)); err != nil {
					t.Fatal(err)
				}
				if how != "close" {
					cancel()
				}
				if drain {
					close(next)
				}
			}
			if resp != nil && how == "cancel" {
				if _, err := io.ReadAll(resp.Body); (err != nil) == drain {
					t.Errorf("drain %v, %s: %v", drain, how, err)
				}
			}
			if resp != nil {
				resp.Body.Close()
			}
			if !drain && how != "cancel before the answer" {
				close(next)
			}
			cancel()
			if used, held := w.paid(); used != want || held != 0 {
				t.Errorf("drain %v, %s: %d are charged and %d held; want %d", drain, how, used, held, want)
			}
		}
	}
}

// TestForgotten: nobody reads or closes the answer, and its caller has left.
func TestForgotten(t *testing.T) {
	w := newWorld(t, memledger.New(nil), 1000, say(200, jsonType, okChat))
	ctx, cancel := context.WithCancel(inLevels(t.Context()))
	r, _ := http.NewRequestWithContext(ctx, http.MethodPost, w.url+chatPath, strings.NewReader(askChat))
	calls, charged := w.transport(Options{}), make(chan Call, 1)
	calls.o.Done = func(c Call) { charged <- c }
	resp, err := calls.RoundTrip(r) // the caller forgets to close the body
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	<-charged
	if used, held := w.paid(); used != heldChat || held != 0 {
		t.Errorf("%d are charged and %d held; want %d", used, held, heldChat)
	}
	resp.Body.Close()
}

// TestUnread: SDKs close the answer of a server error, and send the call again, without having read
// who wrote it.
func TestUnread(t *testing.T) {
	for _, c := range []struct {
		why    string
		answer http.HandlerFunc
		want   int64
	}{
		{"the provider is overloaded", say(503, jsonType, refusing), 0},
		{"a proxy fails after the call", say(502, "text/html", "<html>bad gateway</html>"), heldChat},
		{"an error that is cut off", cutOffStatus(500, jsonType, refusing[:20]), heldChat},
		{"an error as long as no provider's", say(500, jsonType, `{"pad":"`+strings.Repeat("x", maxError)+`",`+refusing[1:]), heldChat},
		{"an answer is not read on", say(200, jsonType, okChat), heldChat},
	} {
		w := newWorld(t, memledger.New(nil), 1000, c.answer)
		r, err := http.NewRequestWithContext(inLevels(t.Context()), http.MethodPost, w.url+chatPath, strings.NewReader(askChat))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := w.transport(Options{}).RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if used, held := w.paid(); used != c.want || held != 0 {
			t.Errorf("%s: %d are charged and %d held; want %d", c.why, used, held, c.want)
		}
	}
}

// TestUnreadSlow: an error whose end does not come holds up neither Close nor the charge.
func TestUnreadSlow(t *testing.T) {
	w := newWorld(t, memledger.New(nil), 1000, func(rw http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		rw.WriteHeader(http.StatusInternalServerError)
		_ = http.NewResponseController(rw).Flush()
		<-r.Context().Done() // the Transport has left
	})
	ctx, cancel := context.WithCancel(inLevels(t.Context()))
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url+chatPath, strings.NewReader(askChat))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := w.transport(Options{}).RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	b := resp.Body.(*body)
	b.rest(time.Millisecond, maxError)
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if used, held := w.paid(); used != heldChat || held != 0 {
		t.Errorf("%d are charged and %d held; want %d", used, held, heldChat)
	}
}

// flaky is a ledger whose decisions fail at some time.
type flaky struct {
	ledger.Ledger
	mu    sync.Mutex
	after int // decisions that succeed before
	fails int // decisions that fail then
	err   error
	made  bool // the decisions that fail are made
}

func (f *flaky) Decide(ctx context.Context, job *ledger.Job) error {
	if len(job.Requests) == 0 {
		return f.Ledger.Decide(ctx, job)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.after--; f.after >= 0 || f.fails <= 0 {
		return f.Ledger.Decide(ctx, job)
	}
	f.fails--
	if f.made {
		if err := f.Ledger.Decide(ctx, job); err != nil {
			return err
		}
	}
	return fmt.Errorf("test: %w", f.err)
}

// TestLedgerAway: while the ledger is away, no call is sent. A call that runs meanwhile is charged
// once, on all levels, when the ledger is back.
func TestLedgerAway(t *testing.T) {
	for _, c := range []struct {
		after, fails int
		err          error
		made         bool
		status       int
		want         int64
	}{
		{0, 1, store.ErrUnavailable, false, 503, 0},
		{0, 1, store.ErrUnknownOutcome, false, 503, 0},
		{0, 1, store.ErrUnknownOutcome, true, 503, 0},
		{0, 3, store.ErrUnknownOutcome, true, 503, 0}, // the hold is canceled later
		{0, 1, store.ErrMisconfigured, false, 500, 0},
		{1, 1, store.ErrUnavailable, false, 200, 50},
		{1, 5, store.ErrUnknownOutcome, false, 200, 50},
		{1, 5, store.ErrUnknownOutcome, true, 200, 50},
	} {
		f := &flaky{Ledger: memledger.New(nil), after: 1 << 30}
		w := newWorld(t, f, 1000, say(200, jsonType, okChat))
		f.after, f.fails, f.err, f.made = c.after, c.fails, c.err, c.made
		resp, text, err := w.post(inLevels(t.Context()), w.transport(Options{TTL: 2 * time.Second}), chatPath, askChat)
		if err != nil || resp.StatusCode != c.status || (w.calls.Load() > 0) != (c.status == 200) {
			t.Errorf("%+v: %v, %v, %s; %d calls", c, resp, err, text, w.calls.Load())
		}
		w.ledger = f.Ledger
		for until := time.Now().Add(10 * time.Second); time.Now().Before(until); time.Sleep(time.Millisecond) {
			list, err := w.budgets.With(f.Ledger).Remaining(t.Context(), levels[0].Name)
			if err != nil || list[0].Held.Minor == 0 { // the hold is canceled beside the answer
				break
			}
		}
		used, held := w.paid()
		if used != c.want || held != 0 {
			t.Errorf("%+v: %d are charged and %d held; want %d", c, used, held, c.want)
		}
	}
}

// TestRefusals: a refusal is in the form of the dialect, and tells when to come back.
func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		why        string
		limit      int64
		leak       time.Duration // of a Rolling rule; 0: none
		spent      int64
		path, body string
		status     int
		form       string
		after      bool
	}{
		{why: "it never fits", limit: 100, body: askChat, status: 400, form: `"code":"budget_exceeded"`},
		{why: "it never fits, in Anthropic", limit: 100, path: "/v1/messages", body: askChat, status: 400, form: `{"error":{"message":"the budget \"keys\" has no room in its rule \"all\" for this call, which may cost 0.00000130 USD","type":"invalid_request_error"},"type":"error"}`},
		{why: "it never fits, in Gemini", limit: 100, path: "/v1beta/models/m:generateContent", body: `{"contents":[]}`, status: 400, form: `"status":"FAILED_PRECONDITION"`},
		{why: "it fits soon", limit: 200, leak: 30 * time.Second, spent: 150, body: askChat, status: 429, form: `"type":"rate_limit_exceeded"`, after: true},
		{why: "it fits soon, in Anthropic", limit: 200, leak: 30 * time.Second, spent: 150, path: "/v1/messages", body: askChat, status: 429, form: `"type":"rate_limit_error"`, after: true},
		{why: "it fits soon, in Gemini", limit: 2000, leak: 30 * time.Second, spent: 1950, path: "/v1beta/models/m:generateContent", body: `{"contents":[]}`, status: 429, form: `"status":"RESOURCE_EXHAUSTED"`, after: true},
		{why: "it fits next month", limit: 200, leak: 720 * time.Hour, spent: 150, body: askChat, status: 429, form: `"rate_limit_exceeded"`},
		{why: "an unknown model", limit: 2000, body: `{"model":"stranger"}`, status: 400, form: `"stranger\"`},
		{why: "an unknown path", limit: 2000, path: "/v1/batches", body: `{}`, status: 400, form: `/v1/batches`},
		{why: "no JSON", limit: 2000, body: `x`, status: 400, form: `JSON`},
	} {
		t.Run(c.why, func(t *testing.T) {
			w := newWorld(t, memledger.New(nil), 1000, say(200, jsonType, okChat))
			limit := spend.Money{Minor: c.limit, Currency: "USD:8"}
			rule := spend.Lifetime("all", limit)
			if c.leak > 0 {
				rule = spend.Rolling("all", limit, c.leak)
			}
			b, err := spend.New(t.Context(), memledger.New(nil), spend.Budget{Name: "keys", Currency: "USD:8", Rules: []spend.Rule{rule}}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if c.spent > 0 {
				if _, err := b.Charge(t.Context(), spend.Request{ID: "before", Account: "key:7", Amount: spend.Money{Minor: c.spent, Currency: "USD:8"}}); err != nil {
					t.Fatal(err)
				}
			}
			w.budgets = b
			if c.path == "" {
				c.path = chatPath
			}
			resp, text, err := w.post(For(t.Context(), "key:7"), w.transport(Options{}), c.path, c.body)
			if err != nil || resp.StatusCode != c.status || !strings.Contains(text, c.form) || w.calls.Load() != 0 {
				t.Fatalf("%v, %v, %s; %d calls; want %d with %s", resp, err, text, w.calls.Load(), c.status, c.form)
			}
			after, ms, retry := resp.Header.Get("Retry-After"), resp.Header.Get("Retry-After-Ms"), resp.Header.Get("X-Should-Retry")
			if (retry == "") != c.after || c.after && (after != "30" || len(ms) != 5) || c.status == 400 && after+ms != "" {
				t.Errorf("Retry-After %q, Retry-After-Ms %q, X-Should-Retry %q", after, ms, retry)
			}
		})
	}
}

// TestMisused: mistakes of the program are told, and send nothing.
func TestMisused(t *testing.T) {
	w := newWorld(t, memledger.New(nil), 1000, say(200, jsonType, okChat))
	models := func(string) (Model, bool) { return Model{Price: plainPrice, MaxOutput: 10}, true }
	for why, calls := range map[string]*Transport{
		"no budgets":                 New(nil, models, nil),
		"no models":                  New(w.budgets, nil, nil),
		"a bucket without a Limiter": New(w.budgets, models, &Options{Bucket: func(string) brim.Bucket { return brim.Bucket{} }}),
	} {
		if _, _, err := w.post(inLevels(t.Context()), calls, chatPath, askChat); err == nil {
			t.Errorf("%s: no error", why)
		}
	}
	for why, c := range map[string]struct {
		ctx    context.Context
		calls  *Transport
		status int
	}{
		"no account":        {t.Context(), w.transport(Options{}), 403},
		"an unknown budget": {For(t.Context(), "a", spend.Account{Budget: "none", Name: "a"}), w.transport(Options{}), 500},
		"a wrong price": {inLevels(t.Context()), New(w.budgets, func(string) (Model, bool) {
			return Model{MaxOutput: 10}, true
		}, nil), 500},
		"a price in another currency": {inLevels(t.Context()), New(w.budgets, func(string) (Model, bool) {
			return Model{Price: Price{Input: spend.Money{Minor: 1, Currency: "EUR:8"}}, MaxOutput: 10}, true
		}, nil), 500},
	} {
		if resp, text, err := w.post(c.ctx, c.calls, chatPath, askChat); err != nil || resp.StatusCode != c.status {
			t.Errorf("%s: %v, %v, %s; want %d", why, resp, err, text, c.status)
		}
	}
	if resp, text, err := w.post(inLevels(t.Context()), w.transport(Options{}), chatPath, strings.Repeat(" ", maxBody+1)); err != nil || resp.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("a long request: %v, %v, %.100s; want 413", resp, err, text)
	}
	if w.calls.Load() != 0 {
		t.Errorf("%d calls were sent", w.calls.Load())
	}
	if resp, _, err := w.post(t.Context(), w.transport(Options{Unknown: true}), "/v1/batches", "{}"); err != nil || resp.StatusCode != http.StatusOK || w.calls.Load() != 1 {
		t.Errorf("unknown requests pass if they may: %v, %v", resp, err)
	}
	if used, held := w.paid(); used != 0 || held != 0 {
		t.Errorf("%d are charged and %d held", used, held)
	}
}

// TestBlock: a 429 of the provider keeps all processes that share the bucket away until then. Other
// refusals teach nothing.
func TestBlock(t *testing.T) {
	for _, c := range []struct {
		why    string
		status int
		header http.Header
		after  string // the Retry-After of the next call; "" if it is made
	}{
		{"Retry-After", 429, http.Header{"Retry-After": {"30"}}, "30"},
		{"milliseconds", 429, http.Header{"Retry-After-Ms": {"20500"}, "Retry-After": {"30"}}, "21"},
		{"no time", 429, nil, ""},
		{"overloaded", 529, http.Header{"Retry-After": {"30"}}, ""},
		{"unavailable", 503, http.Header{"Retry-After": {"30"}}, ""},
	} {
		w := newWorld(t, memledger.New(nil), 100_000, func(rw http.ResponseWriter, r *http.Request) {
			for name, v := range c.header {
				rw.Header()[name] = v
			}
			say(c.status, jsonType, refusing)(rw, r)
		})
		limiter := brim.New(memory.New(nil), nil)
		o := Options{Limiter: limiter, Bucket: func(model string) brim.Bucket {
			return brim.Limit{Capacity: 1e6, LeakRate: 1e6}.For("openai:" + model)
		}}
		resp, _, err := w.post(inLevels(t.Context()), w.transport(o), chatPath, askChat)
		if err != nil || resp.StatusCode != c.status {
			t.Fatalf("%s: %v, %v", c.why, resp, err)
		}
		resp, text, err := w.post(inLevels(t.Context()), w.transport(o), chatPath, askChat)
		if made := w.calls.Load() == 2; err != nil || made != (c.after == "") || c.after != "" && (resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") != c.after) {
			t.Errorf("%s: %v, %v, %s; made %v; want Retry-After %q", c.why, resp, err, text, made, c.after)
		}
		if other, _, err := w.post(inLevels(t.Context()), w.transport(o), chatPath, strings.Replace(askChat, `"m"`, `"n"`, 1)); err != nil || other.StatusCode != c.status {
			t.Errorf("%s: another model: %v, %v", c.why, other, err)
		}
	}
	w := newWorld(t, memledger.New(nil), 100_000, say(200, jsonType, okChat))
	for status, limit := range map[int]brim.Limit{400: brim.Nobody, 500: {}} {
		o := Options{Limiter: brim.New(memory.New(nil), nil), Bucket: func(string) brim.Bucket { return limit.For("k") }}
		if resp, _, err := w.post(inLevels(t.Context()), w.transport(o), chatPath, askChat); err != nil || resp.StatusCode != status || w.calls.Load() > 0 {
			t.Errorf("%v: %v, %v", limit, resp, err)
		}
	}
}

// TestGateway: a ReverseProxy with the Transport passes streams on event by event, and settles the
// calls of clients who leave.
func TestGateway(t *testing.T) {
	next := make(chan struct{})
	w := newWorld(t, memledger.New(nil), 100_000, func(rw http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		rw.Header().Set("Content-Type", sse)
		for range 3 {
			_, _ = io.WriteString(rw, events(chatChunk))
			_ = http.NewResponseController(rw).Flush()
			<-next
		}
		_, _ = io.WriteString(rw, events(chatUsage, "[DONE]"))
	})
	up, _ := url.Parse(w.url)
	gw := httptest.NewServer(&httputil.ReverseProxy{Transport: w.transport(Options{Drain: true}), Rewrite: func(p *httputil.ProxyRequest) {
		p.SetURL(up)
		p.Out = p.Out.WithContext(inLevels(p.Out.Context()))
	}})
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	for _, leaves := range []bool{false, true} {
		ctx, cancel := context.WithCancel(t.Context())
		r, _ := http.NewRequestWithContext(ctx, http.MethodPost, gw.URL+chatPath, strings.NewReader(`{"model":"m","max_tokens":100,"stream":true}`))
		resp, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		event := make([]byte, len(events(chatChunk)))
		for i := range 3 {
			if _, err := io.ReadFull(resp.Body, event); (err != nil || string(event) != events(chatChunk)) && !leaves {
				t.Errorf("event %d: %q, %v", i, event, err)
			}
			if leaves {
				cancel()
			}
			next <- struct{}{}
		}
		rest, err := io.ReadAll(resp.Body)
		if !leaves && (err != nil || string(rest) != events("[DONE]")) {
			t.Errorf("the rest: %q, %v", rest, err)
		}
		resp.Body.Close()
		cancel()
	}
	gw.Close() // waits for its handlers
	if used, held := w.paid(); used != 100 || held != 0 {
		t.Errorf("%d are charged and %d held; want 100", used, held)
	}
}
