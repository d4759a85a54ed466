package ui

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/brimgo/brim/internal/cached"
	"github.com/brimgo/brim/internal/uiapi"
	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/store"
)

// Access is the right of a request.
type Access uint8

const (
	// None sees nothing.
	None Access = iota
	// Look sees all buckets.
	Look
	// Act sees all buckets, may reset, block, unblock and drain them, and may run backtests of
	// spends.
	Act
)

// Options adjust a [Handler]. The zero value selects the defaults.
//
// The functions are called on the goroutine of a request or of a listing, so they must be safe for
// concurrent use.
type Options struct {
	// Recorder counts the decisions and failures that the pages show. It must wrap the store for
	// the callers that it should count; see [Recorder.Wrap]. If it is nil, the pages show no
	// refusals, no course of a level, and no failures of calls. It also counts spends, if the
	// Budgets have its hooks; see [Recorder.Hooks].
	Recorder *Recorder
	// Title names the program or the store on each page; "" means "Limits".
	Title string
	// Key returns the form in which the pages, the log and the answers to programs show a key, for
	// instance by [observe.HashKey]; nil shows keys as they are. Two keys must not share a form. A
	// bucket is then found only by its form, once a listing has it, and only if it is one of the
	// MaxListed.
	Key func(key string) string
	// Who names the person or program behind a request, for the log of changes; nil names its
	// network address. A token is valid only for the person who got it.
	Who func(r *http.Request) string
	// TrustedOrigins are further origins, like "https://ops.example.com", whose pages may post. The
	// address of the page itself needs no entry, unless a proxy in front of it changes the field
	// Host.
	TrustedOrigins []string
	// Check tries the store, and returns the findings that the first page and the command doctor
	// show, for instance those of [postgres.Check]; [JoinChecks] joins it with the Check of a
	// ledger. While somebody looks, the page tries the store every two seconds: by Check, but 20
	// times as seldom as it takes if that is more than 0.3 s, or 5 times while a promise is broken,
	// and by reading a bucket in between. After a failure, and if calls contradict the last try,
	// Check runs at once. It must end with its context. If it is nil, the page only reads, and
	// doctor cannot look into the program. Each try also reads an account of the Spends.
	Check func(ctx context.Context) ([]store.Finding, error)
	// Spends are budgets of one ledger. The pages show their accounts: why a request was declined,
	// what rules in the shadow would have declined, and to those who may act what other rules would
	// have decided. Names of accounts and IDs are shown as they are, so Key must be nil. The calls
	// of the page are calls of these Budgets, with their hooks.
	Spends []*spend.Budgets
	// MaxListed is the number of buckets that a listing keeps in memory, of the fullest ones; 0
	// means 1,048,576, and the most is twice that. While somebody looks, a bucket takes about 80
	// bytes and its key, and during a listing twice that. The pages find other buckets by their
	// whole key.
	MaxListed int
	// Logger gets an entry for each change, at level Info, or Warn if the change cannot be, or
	// Error if the store failed; nil means [slog.Default], since no change may go unnoticed.
	Logger *slog.Logger
	// Clock replaces the clock that tells ages, for tests. The Recorder has a clock of its own.
	Clock func() time.Time
}

const defaultListed = 1 << 20

// Handler serves the pages. It is safe for concurrent use.
type Handler struct {
	store     store.Store
	allow     func(*http.Request) Access
	recorder  *Recorder
	recorded  bool // the Recorder sees the decisions of the program, and not only the calls of the page
	title     string
	form      func(string) string // nil shows keys as they are
	who       func(*http.Request) string
	check     func(context.Context) ([]store.Finding, error)
	maxListed int
	logger    *slog.Logger
	clock     func() time.Time
	budgets   []*spend.Budgets

	explaining, backtesting chan struct{} // places for those that run

	origins *http.CrossOriginProtection
	tokens  *tokens
	guesses *guesses
	value   *cached.Value[*listing]
	last    *listing // the last good one; only read uses it
	tries   *cached.Value[tried]
	tried   tried        // the last good one; only try uses it
	doubt   atomic.Bool  // the next try is a check, however long that takes
	trying  atomic.Int64 // the beginning of a try that runs, in nanoseconds, or 0
}

// New returns a Handler that shows the buckets of s. For each request, allow decides the access
// of the request; see [Bearer] for one way. o may be nil.
//
// Requests with an Authorization that gives no access are guesses. Of these, the Handler answers
// ten a minute from one address and a hundred in all with status 403, and further ones with 429. A
// request with access is never refused so.
//
// The Handler expects paths below its own address, so it is mounted with [http.StripPrefix], below
// an address that ends with a slash. It reads s only while somebody looks. Close it before s.
//
// New fails if s or allow is nil, or an option is invalid.
func New(s store.Store, allow func(*http.Request) Access, o *Options) (*Handler, error) {
	if o == nil {
		o = &Options{}
	}
	switch {
	case s == nil:
		return nil, errors.New("ui: the store is nil")
	case allow == nil:
		return nil, fmt.Errorf("ui: allow is nil; pass a function that tells who may look and act, such as Bearer "+
			"with a token of at least %d characters", uiapi.MinToken)
	case o.MaxListed < 0 || o.MaxListed > 2*defaultListed:
		return nil, fmt.Errorf("ui: MaxListed is %d; it must be from 1 to %d, or 0 for %d",
			o.MaxListed, 2*defaultListed, defaultListed)
	case len(o.Spends) > 0 && o.Key != nil:
		return nil, errors.New("ui: Spends shows the names of accounts, and Key hides those of buckets; leave one of them out")
	case slices.Contains(o.Spends, nil):
		return nil, errors.New("ui: one of the Spends is nil")
	}
	h := &Handler{
		store: s, allow: allow, recorder: o.Recorder, recorded: o.Recorder != nil, title: o.Title, form: o.Key, who: o.Who, check: o.Check,
		maxListed: o.MaxListed, logger: o.Logger, clock: o.Clock, origins: http.NewCrossOriginProtection(),
		budgets: slices.Clone(o.Spends), explaining: make(chan struct{}, explainers), backtesting: make(chan struct{}, 1),
	}
	for _, origin := range o.TrustedOrigins {
		if err := h.origins.AddTrustedOrigin(origin); err != nil {
			return nil, fmt.Errorf("ui: TrustedOrigins: %w", err)
		}
	}
	if h.title == "" {
		h.title = "Limits"
	}
	if h.who == nil {
		h.who = address
	}
	if h.maxListed == 0 {
		h.maxListed = defaultListed
	}
	if h.logger == nil {
		h.logger = slog.Default()
	}
	if h.clock == nil {
		h.clock = time.Now
	}
	if !h.recorded {
		var err error
		if h.recorder, err = NewRecorder(&RecorderOptions{Keys: ways, Clock: h.clock}); err == nil {
			h.store, err = h.recorder.Wrap(s)
		}
		if err != nil {
			return nil, err
		}
	}
	h.tokens = newTokens(h.clock)
	h.guesses = &guesses{clock: h.clock, by: make(map[string]*store.Record)}
	h.value = cached.New(h.read, nil, h.clock)
	h.tries = cached.New(h.try, restOfTry, h.clock)
	return h, nil
}

// Close ends a listing and a try that run. It does not close the store. Pages that are asked for
// later show the last ones.
func (h *Handler) Close() {
	h.value.Close()
	h.tries.Close()
}

// address returns the network address of a request without its port, which differs between two
// requests of one browser.
func address(r *http.Request) string {
	if host, _, err := net.SplitHostPort(r.RemoteAddr); err == nil {
		return host
	}
	return r.RemoteAddr
}

// security are the header fields of every answer. The hash allows the style of the plot, which
// stands within its SVG element.
var security = map[string]string{
	"Cache-Control": "no-store",
	"Content-Security-Policy": "default-src 'none'; style-src 'self' '" + plotStyle + "'; script-src 'self'; " +
		"connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
	"Cross-Origin-Opener-Policy":   "same-origin",
	"Cross-Origin-Resource-Policy": "same-origin",
	"Referrer-Policy":              "same-origin", // with no-referrer, posts have the Origin null
	"X-Content-Type-Options":       "nosniff",
	"X-Frame-Options":              "DENY",
}

// A route answers the requests for one path.
type route struct {
	get, post func(h *Handler, w http.ResponseWriter, v *visit)
	program   bool // answers errors in JSON
	spends    bool // is there only with Options.Spends
}

// routes are the routes by path, without the slash at its beginning.
var routes = map[string]route{
	"":             {get: (*Handler).overview},
	"levels":       {get: (*Handler).levels},
	"bucket":       {get: (*Handler).bucket},
	"change":       {get: (*Handler).change, post: (*Handler).confirm},
	"act":          {post: (*Handler).act},
	"spends":       {get: (*Handler).spends, spends: true},
	"account":      {get: (*Handler).account, spends: true},
	"explain":      {get: (*Handler).explain, spends: true},
	"backtest":     {get: (*Handler).askBacktest, post: (*Handler).runBacktest, spends: true},
	"style.css":    {get: static("style.css", "text/css; charset=utf-8")},
	"script.js":    {get: static("script.js", "text/javascript; charset=utf-8")},
	"api/list":     {get: (*Handler).apiList, program: true},
	"api/refused":  {get: (*Handler).apiRefused, program: true},
	"api/state":    {get: (*Handler).apiState, program: true},
	"api/findings": {get: (*Handler).apiFindings, program: true},
	"api/token":    {get: (*Handler).apiToken, program: true},
	"api/change":   {post: (*Handler).apiChange, program: true},
	"api/explain":  {get: (*Handler).apiExplain, program: true, spends: true},
	"api/backtest": {post: (*Handler).apiBacktest, program: true, spends: true},
}

// visit is a request that may at least look.
type visit struct {
	*http.Request
	access Access
	who    string
}

// ServeHTTP answers a request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for name, value := range security {
		w.Header().Set(name, value)
	}
	v := &visit{Request: r.WithContext(asOwn(r.Context())), access: h.allow(r)}
	path := strings.TrimPrefix(r.URL.Path, "/")
	to, found := routes[path]
	found = found && (!to.spends || len(h.budgets) > 0)
	serve, post := to.get, false
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		serve, post = to.post, true
	}
	if v.access == Look || v.access == Act {
		v.who = h.who(r)
	}
	f := h.guard(v, found, serve != nil && (!post || r.Method == http.MethodPost), post)
	if v.access != Look && v.access != Act && r.Header.Get("Authorization") != "" {
		f = cmp.Or(h.guesses.refused(w, r), f)
	}
	switch {
	case f == nil:
		serve(h, w, v)
	case to.program || strings.HasPrefix(path, "api/"):
		problem(w, f)
	default:
		h.failed(w, v, f)
	}
}

// guard returns the reason why a request is refused, or nil. It looks neither at a token nor at the
// form of a post. A request that may not look learns nothing else.
func (h *Handler) guard(v *visit, found, served, post bool) *failure {
	switch {
	case v.access != Look && v.access != Act:
		return &failure{status: http.StatusForbidden, title: "Not allowed", detail: "This request may not look at the buckets."}
	case !found:
		return &failure{status: http.StatusNotFound, title: "No such page", detail: "There is no page of this address."}
	case !served:
		return &failure{status: http.StatusMethodNotAllowed, title: "Not like this", detail: "This page does not take such requests."}
	case !post:
		return nil
	case v.access != Act:
		return onlyLook
	}
	if err := h.origins.Check(v.Request); err != nil {
		return &failure{
			status: http.StatusForbidden, title: "Not from here",
			detail: "Only the page itself may act, and this request came from the page of another origin.",
		}
	}
	return nil
}

// onlyLook is the answer to somebody who may look, and wants to act.
var onlyLook = &failure{status: http.StatusForbidden, title: "Not allowed", detail: "You may look, and neither change anything nor run a backtest. " +
	"A program allows both by ui.Act for the request, and brim ui by --act.", err: uiapi.ErrOnlyLook}

// failure is an answer with an error.
type failure struct {
	status        int
	title, detail string
	err           error // of the store, or nil
}

// failureOf returns the answer to an error of the store.
func failureOf(err error) *failure {
	f := &failure{status: http.StatusServiceUnavailable, title: "The store does not answer", detail: err.Error(), err: err}
	switch {
	case errors.Is(err, store.ErrUnknownOutcome):
		f.title = "The outcome is unknown"
		f.detail += ". Look at the bucket before you try again."
	case errors.Is(err, store.ErrInvalidKey), errors.Is(err, store.ErrInvalidAmount), errors.Is(err, store.ErrInvalidLimit),
		errors.Is(err, uiapi.ErrReason):
		f.status, f.title = http.StatusBadRequest, "This cannot be"
	case errors.Is(err, spend.ErrUnknownSpend):
		f.status, f.title = http.StatusNotFound, "No such request"
	case errors.Is(err, spend.ErrBudget), errors.Is(err, spend.ErrRequest):
		f.status, f.title = http.StatusBadRequest, "This cannot be"
	case errors.Is(err, store.ErrCorrupt):
		f.status, f.title = http.StatusInternalServerError, "What is stored is damaged"
	case errors.Is(err, errors.ErrUnsupported):
		f.status, f.title = http.StatusNotImplemented, "Not here"
	}
	return f
}
