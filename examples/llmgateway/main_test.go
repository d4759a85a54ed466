package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/brimgo/brim/brimtest"
	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/spend/memledger"
	"github.com/brimgo/brim/store"
)

// limit is that of every client: 1,000 tokens a minute.
var limit = money(1000)

// model answers calls, each of which uses a number of tokens.
type model struct {
	used    int64
	status  int
	silent  bool          // the answer does not say what was used
	cut     bool          // the answer breaks off
	dies    bool          // no answer comes
	running bool          // each event of a stream says what was used until then
	meets   func()        // runs when a call has come
	waiting chan struct{} // a call waits until it is closed; nil: none waits
	calls   atomic.Int64
	billed  atomic.Int64
}

func (m *model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.calls.Add(1)
	if m.meets != nil {
		m.meets()
	}
	if m.waiting != nil {
		<-m.waiting
	}
	body, _ := io.ReadAll(r.Body)
	if r.Header.Get("Authorization") != "Bearer secret" || r.URL.Path != "/v1/chat" {
		http.Error(w, "not the gateway", http.StatusUnauthorized)
		return
	}
	if m.status < 300 {
		m.billed.Add(m.used)
	}
	if m.dies {
		panic(http.ErrAbortHandler)
	}
	usage := fmt.Sprintf(`{"total_tokens": %v}`, m.used)
	if m.silent || m.status >= 300 {
		usage = "null"
	}
	if m.cut {
		w.Header().Set("Content-Length", "1000")
	}
	if !bytes.Contains(body, []byte(`"stream":true`)) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(m.status)
		fmt.Fprintf(w, `{"text": "hello", "usage": %s}`, usage)
		return
	}
	if !bytes.Contains(body, []byte(`"include_usage"`)) {
		usage = "null"
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(m.status)
	for n := range 3 {
		so := "null"
		if m.running {
			so = fmt.Sprintf(`{"total_tokens": %d}`, n+1)
		}
		fmt.Fprintf(w, "data: {\"text\": \"hello %d\", \"usage\": %s}\n\n", n, so)
		_ = http.NewResponseController(w).Flush()
	}
	if !m.cut {
		fmt.Fprintf(w, "data: {\"usage\": %s}\n\ndata: [DONE]\n\n", usage)
	}
}

// over returns a gateway to m, and the clock of its limits.
func over(t *testing.T, m *model) (*gateway, *brimtest.Clock) {
	t.Helper()
	c := brimtest.NewClock(time.Date(2024, 6, 1, 12, 0, 0, 0, time.UTC))
	api := httptest.NewUnstartedServer(m)
	api.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	api.Start()
	t.Cleanup(api.Close)
	g := &gateway{
		limit: limit, price: 1, upstream: api.URL, key: "secret", client: api.Client(), log: slog.New(slog.DiscardHandler),
	}
	if err := g.use(t.Context(), memledger.New(&memledger.Options{Clock: c.Now})); err != nil {
		t.Fatal(err)
	}
	return g, c
}

// request asks for an answer of at most so many tokens. The body has 46 bytes at most.
func request(client string, most int64, stream bool) *http.Request {
	body := fmt.Sprintf(`{"max_tokens": %d}`, most)
	if stream {
		body = fmt.Sprintf(`{"max_tokens": %d, "stream": true}`, most)
	}
	r := httptest.NewRequest(http.MethodPost, "/v1/chat", strings.NewReader(body))
	if client != "" {
		r.Header.Set("Authorization", "Bearer "+client)
	}
	return r
}

// ask makes a call and returns its answer.
func ask(g *gateway, client string, most int64) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	g.ServeHTTP(w, request(client, most, false))
	return w
}

// level returns the sum of the tokens of all clients, who must hold nothing.
func level(t *testing.T, g *gateway) (sum int64) {
	t.Helper()
	for _, client := range []string{"alice", "bob"} {
		list, err := g.budgets.Remaining(t.Context(), account(client))
		if err != nil {
			t.Fatal(err)
		}
		if list[0].Held.Minor != 0 {
			t.Errorf("%v are held after the calls", list[0].Held)
		}
		sum += list[0].Used.Minor
	}
	for e, err := range g.budgets.Export(t.Context(), nil) {
		if err != nil || strings.Contains(e.Account.Name, "alice") {
			t.Errorf("%v; the ledger holds the client's token: %q", err, e.Account.Name)
		}
	}
	return sum
}

func TestGateway(t *testing.T) {
	for _, c := range []struct {
		name   string
		client string
		model  *model
		most   int64
		status int
		level  int64 // after the call
	}{
		{name: "less than the highest cost", client: "alice", model: &model{used: 120, status: 200}, most: 500, status: 200, level: 120},
		{name: "more than the highest cost", client: "alice", model: &model{used: 700, status: 200}, most: 500, status: 200, level: 700},
		{name: "the API refuses", client: "alice", model: &model{used: 120, status: 429}, most: 500, status: 429},
		{name: "too large", client: "alice", model: &model{status: 200}, most: 1000, status: 413},
		{name: "no tokens", client: "alice", model: &model{status: 200}, most: 0, status: 400},
		{name: "far too large", client: "alice", model: &model{status: 200}, most: 1 << 60, status: 400},
		{name: "no client", model: &model{status: 200}, most: 5, status: 401},
	} {
		t.Run(c.name, func(t *testing.T) {
			g, _ := over(t, c.model)
			w := ask(g, c.client, c.most)
			if w.Code != c.status || w.Code == 200 && !strings.Contains(w.Body.String(), "hello") {
				t.Errorf("%d, %s; want %d", w.Code, w.Body, c.status)
			}
			if got := level(t, g); got != c.level {
				t.Errorf("%v tokens are paid; want %v", got, c.level)
			}
			if made := c.model.calls.Load() > 0; made != (c.status != 413 && c.status != 400 && c.status != 401) {
				t.Errorf("the API was called: %v", made)
			}
		})
	}
	t.Run("the ledger is away", func(t *testing.T) {
		m := &model{}
		g, _ := over(t, m)
		if err := g.use(t.Context(), &away{Ledger: memledger.New(nil), fails: 1 << 30}); err != nil {
			t.Fatal(err)
		}
		if w := ask(g, "alice", 500); w.Code != http.StatusServiceUnavailable || m.calls.Load() != 0 {
			t.Errorf("%d, %d calls; want 503 and none", w.Code, m.calls.Load())
		}
	})
}

// leaver is a client that fails at some write, and then has an effect on the handler.
type leaver struct {
	*httptest.ResponseRecorder
	writes int // until it leaves
	leave  func()
}

func (l *leaver) Write(b []byte) (int, error) {
	if l.writes--; l.writes < 0 {
		l.leave()
		return 0, net.ErrClosed
	}
	return l.ResponseRecorder.Write(b)
}

// TestFaults: whatever fails, no tokens stay held, and the tokens that the API bills are counted.
// Where nobody can know them, the call counts as its highest cost.
func TestFaults(t *testing.T) {
	const most = 500
	abort := func(func()) { panic(http.ErrAbortHandler) }
	leaves := func(cancel func()) { cancel() }
	for _, c := range []struct {
		name    string
		model   func(m *model)
		away    bool                   // the API cannot be reached
		meets   func(cancel func())    // runs when the call has come to the API
		write   func(cancel func())    // runs at a write to the client
		writes  int                    // before that
		fails   int                    // decisions about the hold that do not reach the ledger
		unknown func(stream bool) bool // whether nobody can know what was billed
	}{
		{name: "none"},
		{name: "the API cannot be reached", away: true},
		{name: "the API dies without an answer", model: func(m *model) { m.dies = true }, unknown: always},
		{name: "the answer is cut off", model: func(m *model) { m.cut = true }, unknown: always},
		{name: "the answer is cut off after a usage", model: func(m *model) { m.cut, m.running = true, true }, unknown: always},
		{name: "the answer says no usage", model: func(m *model) { m.silent = true }, unknown: always},
		{name: "the API refuses", model: func(m *model) { m.status = 429 }},
		{name: "the API fails", model: func(m *model) { m.status = 500 }},
		{name: "the client leaves before the answer", meets: leaves},
		{name: "the client leaves at the answer", write: leaves},
		{name: "the client leaves in the answer", write: leaves, writes: 2},
		{name: "a write panics", write: abort, unknown: onlyStream},
		{name: "a write in the answer panics", write: abort, writes: 2, unknown: onlyStream},
		{name: "the ledger is away for a while", fails: 3},
	} {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, stream %v", c.name, stream), func(t *testing.T) {
				m := &model{used: 120, status: 200}
				if c.model != nil {
					c.model(m)
				}
				g, clock := over(t, m)
				if c.away {
					g.upstream = "http://127.0.0.1:1"
				}
				if err := g.use(t.Context(), &away{Ledger: memledger.New(&memledger.Options{Clock: clock.Now}), ok: 1, fails: c.fails}); err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if c.meets != nil {
					m.meets = func() { c.meets(cancel) }
				}
				w := &leaver{ResponseRecorder: httptest.NewRecorder(), writes: 1 << 30}
				if c.write != nil {
					w.writes, w.leave = c.writes, func() { c.write(cancel) }
				}
				r := request("alice", most, stream).WithContext(ctx)
				func() {
					defer func() {
						if p := recover(); p != nil && p != http.ErrAbortHandler {
							panic(p)
						}
					}()
					g.ServeHTTP(w, r)
				}()
				want := m.billed.Load()
				if c.unknown != nil && c.unknown(stream) {
					want = most + r.ContentLength
				}
				if got := level(t, g); got != want {
					t.Errorf("%v tokens are paid; want %v; the API billed %d", got, want, m.billed.Load())
				}
			})
		}
	}
}

func always(bool) bool            { return true }
func onlyStream(stream bool) bool { return stream }

// TestLimit starts the gateway with another limit over the same ledger.
func TestLimit(t *testing.T) {
	l := memledger.New(nil)
	g := &gateway{limit: limit}
	for _, c := range []struct {
		tokens, revision, holds int64
		err                     error
	}{{1000, 0, 1000, nil}, {500, 0, 1000, spend.ErrBudget}, {500, 1, 500, nil}, {1000, 0, 500, nil}} {
		g.limit, g.revision = money(c.tokens), c.revision
		if err := g.use(t.Context(), l); !errors.Is(err, c.err) {
			t.Errorf("%+v: %v", c, err)
		}
		b, err := spend.Open(t.Context(), l, "clients", nil)
		if err != nil {
			t.Fatal(err)
		}
		if left, err := b.Remaining(t.Context(), account("alice")); err != nil || left[0].Limit != money(c.holds) {
			t.Errorf("%+v: %+v, %v", c, left, err)
		}
	}
}

// away is a ledger that cannot be reached for some decisions, after some others.
type away struct {
	ledger.Ledger
	ok, fails int
	killed    bool // nobody waits until it can be reached again
}

func (l *away) Decide(ctx context.Context, job *ledger.Job) error {
	if len(job.Requests) == 0 { // the limit, with which the gateway starts
		return l.Ledger.Decide(ctx, job)
	}
	if l.ok--; l.ok < 0 && l.fails > 0 {
		l.fails--
		if l.killed {
			return store.ErrClosed
		}
		return store.ErrUnavailable
	}
	return l.Ledger.Decide(ctx, job)
}

// TestKilled kills the gateway before each of its decisions about a call whose events tell the
// usage. The client has paid for the tokens of each event that it has got. When the hold has
// expired, nothing stays held, and the client has paid all that the API may bill.
func TestKilled(t *testing.T) {
	for _, stream := range []bool{false, true} {
		for ok := range 8 {
			m := &model{used: 120, status: 200, running: true}
			g, clock := over(t, m)
			l := memledger.New(&memledger.Options{Clock: clock.Now})
			if err := g.use(t.Context(), &away{Ledger: l, ok: ok, fails: 1 << 30, killed: true}); err != nil {
				t.Fatal(err)
			}
			w := httptest.NewRecorder()
			g.ServeHTTP(w, request("alice", 500, stream))
			delivered := int64(0)
			for line := range strings.Lines(w.Body.String()) {
				if n := usage([]byte(strings.TrimPrefix(line, "data:"))); n != nil {
					delivered = *n
				}
			}
			if err := g.use(t.Context(), l); err != nil {
				t.Fatal(err)
			}
			paid := spent(t, g)
			if paid < delivered || ok == 7 && delivered != 120 {
				t.Errorf("stream %v, killed after %d decisions: %d tokens are delivered, and %d are paid", stream, ok, delivered, paid)
			}
			clock.Advance(holdFor)
			level(t, g)
			if paid := spent(t, g); paid < m.billed.Load() || ok == 0 && paid > 0 || ok == 7 && paid != 120 {
				t.Errorf("stream %v, killed after %d decisions: %d tokens are paid at last, and %d are billed", stream, ok, paid, m.billed.Load())
			}
		}
	}
}

// spent returns the tokens that the entries of the ledger have charged, also those of expired
// holds.
func spent(t *testing.T, g *gateway) (sum int64) {
	t.Helper()
	if _, err := g.budgets.Prune(t.Context()); err != nil {
		t.Fatal(err)
	}
	for e, err := range g.budgets.Export(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		sum += e.Used.Minor
	}
	return sum
}

// TestClientHasGone: a client that has gone before its call is made costs nothing.
func TestClientHasGone(t *testing.T) {
	m := &model{used: 120, status: 200}
	g, _ := over(t, m)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	g.ServeHTTP(httptest.NewRecorder(), request("alice", 500, false).WithContext(ctx))
	if n := m.calls.Load(); n != 0 || level(t, g) != 0 {
		t.Errorf("%d calls, level %v; want none", n, level(t, g))
	}
}

// TestLeaksMeanwhile: the 400 tokens of an account leak while a call runs. Leaked tokens are not
// given back a second time.
func TestLeaksMeanwhile(t *testing.T) {
	m := &model{used: 120, status: 200}
	g, c := over(t, m)
	m.meets = func() {
		if m.calls.Load() == 2 {
			c.Advance(holdFor - time.Second) // 483 units leak, and there are 400
		}
	}
	m.used = 400
	ask(g, "alice", 500)
	m.used = 120
	ask(g, "alice", 500)
	if got := level(t, g); got != 120 {
		t.Errorf("%v tokens are paid; the call used 120 when all else had leaked", got)
	}
}

// TestStreams: each event comes to the client before the API sends the next.
func TestStreams(t *testing.T) {
	next := make(chan struct{})
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for n := range 3 {
			fmt.Fprintf(w, "data: {\"text\": \"%d\"}\n\n", n)
			_ = http.NewResponseController(w).Flush()
			<-next
		}
		fmt.Fprint(w, "data: {\"usage\": {\"total_tokens\": 77}}\n\n")
	}))
	defer api.Close()
	g, _ := over(t, &model{})
	g.upstream = api.URL
	gateway := httptest.NewServer(g)
	defer gateway.Close()
	r, err := http.NewRequest(http.MethodPost, gateway.URL+"/v1/chat", strings.NewReader(`{"max_tokens": 100, "stream": true}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer alice")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for n := range 3 {
		for lines.Scan() && lines.Text() == "" {
		}
		if want := fmt.Sprintf(`data: {"text": "%d"}`, n); lines.Text() != want {
			t.Errorf("the client has %q, %v; want %q", lines.Text(), lines.Err(), want)
		}
		next <- struct{}{}
	}
	for lines.Scan() {
	}
	gateway.Close() // waits for the handler
	if got := level(t, g); got != 77 {
		t.Errorf("%v tokens are paid; want 77", got)
	}
}

// TestCallsAtOnce makes calls at the same time. Each may use its highest cost, so only two fit
// into the bucket, although all would fit afterwards. Another client is not concerned.
func TestCallsAtOnce(t *testing.T) {
	m := &model{used: 10, status: 200, waiting: make(chan struct{})}
	g, _ := over(t, m)
	codes := make(chan int, 8)
	var all sync.WaitGroup
	for range 7 {
		all.Go(func() { codes <- ask(g, "alice", 400).Code })
	}
	for range 5 { // the calls that do not fit return at once
		if code := <-codes; code != http.StatusTooManyRequests {
			t.Errorf("a call beside two others: %d", code)
		}
	}
	all.Go(func() { codes <- ask(g, "bob", 400).Code })
	close(m.waiting)
	all.Wait()
	for range 3 {
		if code := <-codes; code != http.StatusOK {
			t.Errorf("a call that fits: %d", code)
		}
	}
	if got := level(t, g); got != 30 {
		t.Errorf("%v tokens are paid; want 10 for each of three calls", got)
	}
	if w := ask(g, "alice", 400); w.Code != http.StatusOK {
		t.Errorf("a call when the holds have ended: %d", w.Code)
	}
}

func TestRun(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := run(ctx, []string{"-upstream", "http://127.0.0.1:1", "-listen", "127.0.0.1:0"}); err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("a gateway that is ended: %v", err)
	}
	for _, args := range [][]string{{}, {"-upstream", "http://127.0.0.1:1", "-limit", "-1"}, {"-upstream", "http://127.0.0.1:1", "-file", "/nowhere/gateway.db"}} {
		if err := run(t.Context(), args); err == nil {
			t.Errorf("%v: no error", args)
		}
	}
}
