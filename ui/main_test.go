package ui

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/brimtest"
	"github.com/brimgo/brim/internal/uiapi"
	"github.com/brimgo/brim/memory"
	"github.com/brimgo/brim/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var ten = brim.Limit{Capacity: 10, LeakRate: 1}

// fakeStore counts the listings of a store, and can be made to fail.
type fakeStore struct {
	store.Store
	visits atomic.Int64
	down   atomic.Bool
	slow   func()      // called in each listing; nil does nothing
	hangs  atomic.Bool // calls wait for the end of their context
}

func (f *fakeStore) failing(ctx context.Context) error {
	if f.hangs.Load() {
		<-ctx.Done()
		return store.Wrap("fake", "call", ctx.Err())
	}
	if f.down.Load() {
		return store.Wrap("fake", "call", store.ErrUnavailable)
	}
	return nil
}

func (f *fakeStore) Visit(ctx context.Context, prefix string, each func(store.Entry) bool) error {
	f.visits.Add(1)
	if f.slow != nil {
		f.slow()
	}
	if err := f.failing(ctx); err != nil {
		return err
	}
	return f.Store.Visit(ctx, prefix, each)
}

func (f *fakeStore) Read(ctx context.Context, buckets ...store.Bucket) ([]store.State, error) {
	if err := f.failing(ctx); err != nil {
		return nil, err
	}
	return f.Store.Read(ctx, buckets...)
}

func (f *fakeStore) Fill(ctx context.Context, op store.Op) (store.State, error) {
	if err := f.failing(ctx); err != nil {
		return store.State{}, err
	}
	return f.Store.Fill(ctx, op)
}

// mounted is a page below /limits/, over a store in memory, with its clock.
type mounted struct {
	http.Handler
	handler *Handler
	store   *fakeStore
	lim     *brim.Limiter
	clock   *brimtest.Clock
	access  Access
	log     *bytes.Buffer
}

// mount returns a page. change changes its options.
func mount(t testing.TB, change func(*Options)) *mounted {
	t.Helper()
	m := &mounted{clock: newManual(), access: Act, log: new(bytes.Buffer)}
	inner := memory.New(&memory.Options{Clock: m.clock.Now})
	m.store = &fakeStore{Store: inner}
	r, err := NewRecorder(&RecorderOptions{Clock: m.clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	recorded, err := r.Wrap(m.store)
	if err != nil {
		t.Fatal(err)
	}
	m.lim = brim.New(recorded, nil)
	o := &Options{Recorder: r, Clock: m.clock.Now, Logger: slog.New(slog.NewTextHandler(m.log, nil))}
	if change != nil {
		change(o)
	}
	m.handler, err = New(recorded, func(*http.Request) Access { return m.access }, o)
	if err != nil {
		t.Fatal(err)
	}
	m.Handler = http.StripPrefix("/limits", m.handler)
	t.Cleanup(func() {
		m.handler.Close()
		_ = recorded.Close()
	})
	return m
}

// fill puts n units into the bucket of a key.
func (m *mounted) fill(t testing.TB, key string, n float64) {
	t.Helper()
	if _, err := m.lim.TryFillup(t.Context(), ten.For(key), n); err != nil {
		t.Fatal(err)
	}
}

// page is an answer.
type page struct {
	code   int
	body   string
	header http.Header
}

func (m *mounted) do(r *http.Request) page {
	w := httptest.NewRecorder()
	m.ServeHTTP(w, r)
	return page{w.Code, w.Body.String(), w.Header()}
}

// get asks for a page below /limits/.
func (m *mounted) get(path string) page {
	return m.do(httptest.NewRequest(http.MethodGet, "http://ops.example/limits/"+path, nil))
}

// post posts a form as the page itself does.
func (m *mounted) post(path string, form url.Values) page {
	return m.do(formPost(path, form))
}

func formPost(path string, form url.Values) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "http://ops.example/limits/"+path, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Origin", "http://ops.example")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	return r
}

// want checks the status of an answer, and texts in it.
func (p page) want(t testing.TB, code int, texts ...string) page {
	t.Helper()
	if p.code != code {
		t.Errorf("status %d, want %d: %s", p.code, code, p.body)
	}
	for _, text := range texts {
		if !strings.Contains(p.body, text) {
			t.Errorf("the answer does not contain %q:\n%s", text, p.body)
		}
	}
	return p
}

var hiddenField = regexp.MustCompile(`<input type="hidden" name="([a-z]+)" value="([^"]*)">`)

// fields returns the hidden fields of the form of a page.
func (p page) fields() url.Values {
	form := url.Values{}
	for _, m := range hiddenField.FindAllStringSubmatch(p.body, -1) {
		form.Set(m[1], m[2])
	}
	return form
}

func TestNewFails(t *testing.T) {
	s := memory.New(nil)
	look := func(*http.Request) Access { return Look }
	for name, build := range map[string]func() (*Handler, error){
		"no store":   func() (*Handler, error) { return New(nil, look, nil) },
		"no allow":   func() (*Handler, error) { return New(s, nil, nil) },
		"negative":   func() (*Handler, error) { return New(s, look, &Options{MaxListed: -1}) },
		"too many":   func() (*Handler, error) { return New(s, look, &Options{MaxListed: 1 << 22}) },
		"bad origin": func() (*Handler, error) { return New(s, look, &Options{TrustedOrigins: []string{"ops.example"}}) },
	} {
		if h, err := build(); err == nil || h != nil {
			t.Errorf("%s: no error", name)
		}
	}
	h, err := New(s, look, nil)
	if err != nil {
		t.Fatal(err)
	}
	h.Close()
}

// TestSecurityFields looks at the header fields of every kind of answer.
func TestSecurityFields(t *testing.T) {
	m := mount(t, nil)
	for _, path := range []string{"", "levels", "bucket?key=a", "change?key=a&act=reset", "style.css", "script.js", "api/list", "none", "act"} {
		h := m.get(path).header
		csp := h.Get("Content-Security-Policy")
		if strings.Contains(csp, "unsafe") || !strings.Contains(csp, "default-src 'none'") || !strings.Contains(csp, "frame-ancestors 'none'") {
			t.Errorf("%s: Content-Security-Policy %q", path, csp)
		}
		if h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Cache-Control") != "no-store" || h.Get("Set-Cookie") != "" {
			t.Errorf("%s: %v", path, h)
		}
	}
}

// parametrized are the pages that need parameters.
var parametrized = []string{"bucket", "change", "account", "explain", "backtest"}

// TestAccess asks for everything without access, and for changes with access to look.
func TestAccess(t *testing.T) {
	m, _, _ := spending(t, func(o *Options) { o.Title = "billing" })
	m.fill(t, "a", 1)
	m.access = None
	for path := range routes {
		p := m.get(path)
		p.want(t, http.StatusForbidden)
		if strings.Contains(p.body, "billing") {
			t.Errorf("%q tells a stranger the name of the program", path)
		}
		m.post(path, nil).want(t, http.StatusForbidden)
	}
	m.get("none").want(t, http.StatusForbidden)
	m.access = Access(77)
	m.get("").want(t, http.StatusForbidden)
	m.access = Look
	m.get("").want(t, http.StatusOK, "billing")
	if p := m.get("bucket?key=a").want(t, http.StatusOK); strings.Contains(p.body, "Reset") {
		t.Error("a bucket offers changes to those who may only look")
	}
	m.get("change?key=a&act=reset").want(t, http.StatusForbidden)
	m.get("api/token").want(t, http.StatusForbidden)
	m.get("none").want(t, http.StatusNotFound)
	m.get("act").want(t, http.StatusMethodNotAllowed)
	for path, route := range routes {
		for _, method := range []string{http.MethodPut, http.MethodDelete, http.MethodPatch, http.MethodOptions, "BREW"} {
			m.do(httptest.NewRequest(method, "/limits/"+path, nil)).want(t, http.StatusMethodNotAllowed)
		}
		if route.get != nil && !strings.HasPrefix(path, "api/") && !slices.Contains(parametrized, path) {
			m.do(httptest.NewRequest(http.MethodHead, "/limits/"+path, nil)).want(t, http.StatusOK)
		}
	}
}

// TestStoreGoesAway stops the store while the page is open, and starts it again.
func TestStoreGoesAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mount(t, nil)
		m.fill(t, "a", 5)
		m.get("levels").want(t, http.StatusOK, "bucket?key=a")
		m.get("").want(t, http.StatusOK, "Healthy", "No call failed")
		m.store.down.Store(true)
		m.later()
		p := m.get("levels").want(t, http.StatusOK, "The store does not answer", "bucket?key=a", "store unavailable", "The numbers are 1h old")
		if strings.Contains(p.body, "There are no buckets") {
			t.Error("the page shows no buckets, and not the old ones")
		}
		m.get("").want(t, http.StatusOK, "The store fails", "failed: fake: call: store unavailable")
		m.get("bucket?key=a").want(t, http.StatusServiceUnavailable, "The store does not answer", `id="live"`)
		m.get("api/list").want(t, http.StatusServiceUnavailable, `"kind":"unavailable"`)
		m.get("api/state?key=a").want(t, http.StatusServiceUnavailable, `"kind":"unavailable"`)
		synctest.Wait()
		m.store.down.Store(false)
		m.later()
		p = m.get("levels").want(t, http.StatusOK, "The numbers are 0s old")
		if strings.Contains(p.body, "does not answer") {
			t.Error("the page says that the store does not answer, and it does")
		}
		m.get("").want(t, http.StatusOK, "Healthy")
		m.get("bucket?key=a").want(t, http.StatusOK, "Read at")
	})
}

// later has the page list and try the store again, an hour later. It first lets a listing end that
// is under way, since that would seem to take the hour. A test calls later in a bubble of
// synctest.
func (m *mounted) later() {
	synctest.Wait()
	m.clock.Advance(time.Hour)
	m.get("") // begins the next listing
	synctest.Wait()
}

// TestStoreHangs changes a bucket in a store that does not answer.
func TestStoreHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mount(t, nil)
		m.fill(t, "a", 5)
		form := m.forms(t, uiapi.Drain, "a", "1")
		m.store.hangs.Store(true)
		begin := time.Now()
		m.post("act", form).want(t, http.StatusServiceUnavailable, "The store does not answer")
		if took := time.Since(begin); took != changeTimeout {
			t.Errorf("the answer came after %v, want %v", took, changeTimeout)
		}
	})
}

// TestListingPanics has a panic in a function that the program gave to the page, and in the store.
func TestListingPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var badKey, badVisit atomic.Bool
		badKey.Store(true)
		m := mount(t, func(o *Options) {
			o.Key = func(key string) string {
				if badKey.Load() {
					panic("no such secret")
				}
				return key
			}
		})
		m.store.slow = func() {
			if badVisit.Load() {
				panic("visit")
			}
		}
		m.fill(t, "a", 5)
		m.get("levels").want(t, http.StatusServiceUnavailable, "a listing panicked: no such secret")
		if log := m.log.String(); !strings.Contains(log, "ui.(*Handler).shown") {
			t.Errorf("the log has no stack: %s", log)
		}
		synctest.Wait()
		badKey.Store(false)
		m.later()
		m.get("levels").want(t, http.StatusOK, "bucket?key=a")
		synctest.Wait()
		badVisit.Store(true)
		m.later()
		m.get("levels").want(t, http.StatusOK, "a listing panicked: visit", "bucket?key=a")
		m.get("").want(t, http.StatusOK, "Healthy")
	})
}
