package browser

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/internal/redistest"
	"github.com/brimgo/brim/internal/supervisor"
	"github.com/brimgo/brim/memory"
	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/spend/memledger"
	"github.com/brimgo/brim/store"
	"github.com/brimgo/brim/ui"
)

// chromium is the browser that all tests share. Each test has a tab of its own.
var chromium context.Context

func TestMain(m *testing.M) {
	os.Exit(withChromium(func() int { return pgtest.Run(redistest.With(m)) }))
}

func withChromium(run func() int) int {
	path := os.Getenv("BRIM_CHROMIUM")
	if path == "" {
		var err error
		if path, err = supervisor.Find(os.Stderr, "chromium", "chromium", "chromium-browser", "google-chrome"); err != nil {
			fmt.Fprintf(os.Stderr, "put Chromium on PATH, or name it by BRIM_CHROMIUM: %v\n", err)
			return 1
		}
	}
	options := append([]chromedp.ExecAllocatorOption{}, chromedp.DefaultExecAllocatorOptions[:]...)
	options = append(options, chromedp.ExecPath(path), chromedp.Flag("disable-dev-shm-usage", true))
	if os.Getuid() == 0 {
		options = append(options, chromedp.NoSandbox) // Chromium has none for root
	}
	allocator, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	defer cancel()
	browser, cancel := chromedp.NewContext(allocator)
	defer cancel()
	if err := chromedp.Do(browser); err != nil {
		fmt.Fprintln(os.Stderr, path, "does not start:", err)
		return 1
	}
	chromium = browser
	return run()
}

// tab is a tab of the browser, and the complaints that the browser wrote on its console.
type tab struct {
	context.Context
	t    *testing.T
	look look
	mu   sync.Mutex
	// complaints are errors of scripts, violations of the Content-Security-Policy and the like.
	complaints []string
}

// look is the way in which a tab looks at pages.
type look struct {
	width    int64
	dark     bool
	noScript bool
}

func newTab(t *testing.T, l look) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(chromium)
	t.Cleanup(cancel)
	ctx, end := context.WithTimeout(ctx, 4*time.Minute)
	t.Cleanup(end)
	if l.width == 0 {
		l.width = 1280
	}
	b := &tab{Context: ctx, t: t, look: l}
	b.run(chromedp.Func(func(_ context.Context, target *chromedp.Target) error {
		entries := cdp.Events(ctx, target, cdplog.EntryAdded)
		thrown := cdp.Events(ctx, target, runtime.ExceptionThrown)
		go func() {
			for e, err := range entries {
				if err != nil {
					return
				}
				if e.Entry.Level == "error" {
					b.complain(e.Entry.Text + " " + e.Entry.URL)
				}
			}
		}()
		go func() {
			for e, err := range thrown {
				if err != nil {
					return
				}
				b.complain(fmt.Sprint("exception: ", e.ExceptionDetails.Text))
			}
		}()
		return nil
	}))
	height := int64(900)
	if l.width < 600 {
		height = 640
	}
	scheme := "light"
	if l.dark {
		scheme = "dark"
	}
	call(b, cdplog.Enable, cdp.Empty{})
	call(b, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
		Width: l.width, Height: height, DeviceScaleFactor: 1, Mobile: l.width < 600,
	})
	call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
	call(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: l.noScript})
	return b
}

// complain notes a complaint of the browser.
func (b *tab) complain(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.complaints = append(b.complaints, text)
}

// run does actions and ends the test if one fails.
func (b *tab) run(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.Context, actions...); err != nil {
		b.t.Fatal(err)
	}
}

// get returns the value of an action and ends the test if it fails.
func get[T any](b *tab, action chromedp.Action[T]) T {
	b.t.Helper()
	value, err := chromedp.Run(b.Context, action)
	if err != nil {
		b.t.Fatal(err)
	}
	return value
}

// call calls a command of the browser.
func call[P, R any](b *tab, command cdp.Command[P, R], params P) R {
	b.t.Helper()
	return get(b, func(ctx context.Context, target *chromedp.Target) (R, error) {
		return cdp.Call(ctx, target, command, params)
	})
}

// open loads a page.
func (b *tab) open(address string) {
	b.t.Helper()
	b.run(chromedp.Navigate(address))
}

// evaluate returns the value of an expression in the page. It works without script, too.
func evaluate[T any](b *tab, expression string) T {
	b.t.Helper()
	return get(b, chromedp.Evaluate[T](expression))
}

// text returns the visible text of the page, or "" while the next page is loading.
func (b *tab) text() string {
	text, err := chromedp.Run(b.Context, chromedp.Evaluate[string](`document.body?.innerText ?? ""`))
	if err != nil && b.Err() != nil {
		b.t.Fatal(err)
	}
	return text
}

// wants waits for texts on the page.
func (b *tab) wants(texts ...string) {
	b.t.Helper()
	for _, text := range texts {
		b.eventually("the text "+text, func() bool { return strings.Contains(b.text(), text) })
	}
}

// eventually waits for up to 20 seconds.
func (b *tab) eventually(name string, ok func() bool) {
	b.t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if ok() {
			return
		}
	}
	b.t.Fatalf("%s: not within 20 s, on\n%s", name, b.text())
}

// quiet checks that the browser complained about nothing, except for texts that contain one of
// those allowed.
func (b *tab) quiet(allowed ...string) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
next:
	for _, complaint := range b.complaints {
		for _, a := range allowed {
			if strings.Contains(complaint, a) {
				continue next
			}
		}
		b.t.Errorf("the browser complains: %s", complaint)
	}
}

// tree returns the accessibility tree, without the nodes that are left out for assistive software.
func (b *tab) tree() (nodes []*accessibility.Node) {
	b.t.Helper()
	call(b, accessibility.Enable, cdp.Empty{})
	for _, n := range call(b, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{}).Nodes {
		if !n.Ignored {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// valueOf returns a text of the accessibility tree.
func valueOf(v *accessibility.Value) string {
	if v == nil {
		return ""
	}
	return strings.Trim(string(v.Value), `"`)
}

// program is a program that mounts the page, with buckets of all kinds.
type program struct {
	*httptest.Server
	lim    *brim.Limiter
	cards  *spend.Budgets
	ledger *flakyLedger
	store  *flaky
	access atomic.Int32
	gone   atomic.Bool // the program does not answer at all
	now    time.Time
	clock  atomic.Int64 // microseconds after now
	// slowest is the longest time of a check that had an answer, in nanoseconds.
	slowest atomic.Int64
}

// flaky is a store that can be away.
type flaky struct {
	store.Store
	down  atomic.Bool
	hangs atomic.Bool // calls wait for the end of their context, or of this
}

// wait returns an error while the store is down, and waits while it hangs.
func (f *flaky) wait(ctx context.Context, op string) error {
	for f.hangs.Load() {
		select {
		case <-ctx.Done():
			return store.Wrap("postgres", op, ctx.Err())
		case <-time.After(10 * time.Millisecond):
		}
	}
	if f.down.Load() {
		return store.Wrap("postgres", op, store.ErrUnavailable)
	}
	return nil
}

// flakyLedger is a ledger that can be away.
type flakyLedger struct {
	ledger.Ledger
	down atomic.Bool
}

func (l *flakyLedger) View(ctx context.Context, job *ledger.Job) error {
	if l.down.Load() {
		return store.Wrap("pgledger", "view", store.ErrUnavailable)
	}
	return l.Ledger.View(ctx, job)
}

func (f *flaky) Fill(ctx context.Context, op store.Op) (store.State, error) {
	if err := f.wait(ctx, "fill"); err != nil {
		return store.State{}, err
	}
	return f.Store.Fill(ctx, op)
}

func (f *flaky) Visit(ctx context.Context, prefix string, each func(store.Entry) bool) error {
	if err := f.wait(ctx, "list"); err != nil {
		return err
	}
	return f.Store.Visit(ctx, prefix, each)
}

func (f *flaky) Read(ctx context.Context, buckets ...store.Bucket) ([]store.State, error) {
	if err := f.wait(ctx, "read"); err != nil {
		return nil, err
	}
	return f.Store.Read(ctx, buckets...)
}

// advance moves the clock of the store.
func (p *program) advance(d time.Duration) { p.clock.Add(d.Microseconds()) }

// clockNow returns the time of the clock that the test moves, or that of the machine if there is
// none.
func (p *program) clockNow() time.Time {
	if p.now.IsZero() {
		return time.Now()
	}
	return p.now.Add(time.Duration(p.clock.Load()) * time.Microsecond)
}

// newProgram returns a program with an empty store in memory, whose clock the test moves.
func newProgram(t *testing.T) *program {
	t.Helper()
	p := &program{now: time.Date(2026, 3, 14, 9, 20, 0, 0, time.UTC)}
	inner := memory.New(&memory.Options{Clock: p.clockNow})
	p.serve(t, place{store: inner})
	return p
}

// place is a store, its ledger and the check of both.
type place struct {
	store  store.Store
	ledger ledger.Ledger // nil means one in memory
	check  func(context.Context) ([]store.Finding, error)
}

// serve serves the page over a store and a ledger, and closes all at the end of the test.
func (p *program) serve(t *testing.T, at place) {
	t.Helper()
	p.access.Store(int32(ui.Act))
	p.store = &flaky{Store: at.store}
	rec, err := ui.NewRecorder(nil)
	if err != nil {
		t.Fatal(err)
	}
	recorded, err := rec.Wrap(p.store)
	if err != nil {
		t.Fatal(err)
	}
	p.lim = brim.New(recorded, nil)
	if p.ledger = (&flakyLedger{Ledger: at.ledger}); at.ledger == nil {
		p.ledger.Ledger = memledger.New(&memledger.Options{Clock: p.clockNow})
	}
	p.cards, err = spend.New(t.Context(), p.ledger, cards, &spend.Options{Hooks: []spend.Hooks{rec.Hooks()}})
	if err != nil {
		t.Fatal(err)
	}
	options := ui.Options{Title: "billing", Recorder: rec, Spends: []*spend.Budgets{p.cards}, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))}
	if at.check != nil {
		options.Check = func(ctx context.Context) ([]store.Finding, error) {
			if err := p.store.wait(ctx, "check"); err != nil {
				return nil, err
			}
			begin := time.Now()
			findings, err := at.check(ctx)
			if err == nil {
				p.slowest.Store(max(p.slowest.Load(), int64(time.Since(begin))))
			}
			return findings, err
		}
	}
	page, err := ui.New(recorded, func(*http.Request) ui.Access { return ui.Access(p.access.Load()) }, &options)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/limits/", http.StripPrefix("/limits", page))
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p.gone.Load() {
			panic(http.ErrAbortHandler)
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		p.Close()
		page.Close()
		_ = recorded.Close()
		_ = p.ledger.Close()
	})
}

// page returns the address of a page.
func (p *program) page(path string) string { return p.URL + "/limits/" + path }

// hostile are keys that could break a page.
var hostile = []string{
	"</a></td></table><script>document.title='broken'</script>", `" onmouseover="document.title='broken'" x="`,
	"<img src=x onerror=\"document.title='broken'\">", "a\r\nb\tc", "bell\a\x1b[31m", "card\u202e4242", "שלום עולם", "مرحبا:42",
	strings.Repeat("k", store.MaxKeyLen), strings.Repeat("ש", store.MaxKeyLen/2), "javascript:document.title='broken'",
}

// populate is work, with hostile names.
func (p *program) populate(t *testing.T) {
	t.Helper()
	p.work(t)
	for i, key := range hostile {
		if _, err := p.lim.TryFillup(t.Context(), brim.Limit{Capacity: 60, LeakRate: 1}.For(key), float64(i)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := p.cards.Charge(t.Context(), spend.Request{ID: hostileName, Account: hostileName, Amount: cents(300_00)}); err != nil {
		t.Fatal(err)
	}
}

// work fills buckets over ten minutes, charges accounts and blocks a bucket.
func (p *program) work(t *testing.T) {
	t.Helper()
	limits := []brim.Limit{{Capacity: 1000, LeakRate: 5}, {Capacity: 60, LeakRate: 1}, {Capacity: 10_000, LeakRate: 500}, {Capacity: 5}}
	try := func(key string, l brim.Limit, n float64) {
		if _, err := p.lim.TryFillup(t.Context(), l.For(key), n); err != nil {
			t.Fatal(err)
		}
	}
	for minute := range 9 {
		for second := 0; second < 60; second += 5 {
			p.advance(5 * time.Second)
			for i := range 8 {
				try(fmt.Sprint("tenant:", i+1), limits[i%4], float64((i*31+minute*17+second)%70)*limits[i%4].Capacity/400)
			}
		}
	}
	p.spend(t)
	if _, err := p.lim.Block(t.Context(), "login:alice", time.Hour); err != nil {
		t.Fatal(err)
	}
	if _, err := p.lim.Hold(t.Context(), limits[0].For("tenant:1"), 100); err != nil {
		t.Fatal(err)
	}
}

// focused returns a description of the element that has the focus.
func (b *tab) focused() string {
	b.t.Helper()
	return evaluate[string](b, `(() => { const e = document.activeElement; return e === document.body ? "" :
		[e.tagName.toLowerCase(), e.getAttribute("href") ?? e.name ?? "", e.textContent.trim().slice(0, 40)].join(" ") })()`)
}

// write writes text into the field with that id, as by keys.
func (b *tab) write(id, text string) {
	b.t.Helper()
	b.run(chromedp.SendKeys(chromedp.ID(id), text))
}

// click activates the first element of a selector, as a click does. The tests by keyboard send real
// events; a real click waits for an answer that a page which is left may not give.
func (b *tab) click(selector string) {
	b.t.Helper()
	evaluate[any](b, fmt.Sprintf("document.querySelector(%q).click()", selector))
}
