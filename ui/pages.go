package ui

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/brimgo/brim/internal/humanize"
	"github.com/brimgo/brim/internal/plot"
	"github.com/brimgo/brim/store"
)

//go:embed pages
var files embed.FS

var templates = template.Must(template.ParseFS(files, "pages/*.html"))

// plotStyle is the hash of the style element of a plot, as a Content-Security-Policy names it.
var plotStyle = func() string {
	_, style, _ := strings.Cut(new(plot.Figure).SVG(), "<style>")
	style, _, _ = strings.Cut(style, "</style>")
	sum := sha256.Sum256([]byte(style))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}()

// patience limits the time for which a page waits for the store.
const patience = 4 * time.Second

// static returns a route that serves a file.
func static(name, kind string) func(*Handler, http.ResponseWriter, *visit) {
	content, err := files.ReadFile("pages/" + name)
	if err != nil {
		panic(err) // the file is embedded
	}
	return func(_ *Handler, w http.ResponseWriter, _ *visit) {
		w.Header().Set("Content-Type", kind)
		_, _ = w.Write(content) // nobody is left to hear of an error
	}
}

// frame is the part of a page that all pages share.
type frame struct {
	Program string
	Heading string
	Tab     string   // the tab that the page is, or ""
	Spends  bool     // there is a tab for spends
	Problem *failure // or nil
}

// frame returns the frame of a page with that heading, in a tab or "".
func (h *Handler) frame(heading, tab string) frame {
	return frame{Program: h.title, Heading: heading, Tab: tab, Spends: len(h.budgets) > 0}
}

// Title and Detail are the texts of a failure in a template.
func (f *failure) Title() string  { return f.title }
func (f *failure) Detail() string { return f.detail }

// render writes a page with that status.
func (h *Handler) render(w http.ResponseWriter, status int, name string, data any) {
	var b bytes.Buffer
	if err := templates.ExecuteTemplate(&b, name, data); err != nil {
		h.logger.Error("ui: a page cannot be made", "page", name, "error", err)
		http.Error(w, "the page cannot be made", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // nobody is left to hear of an error
}

// failed answers with a page about a failure.
func (h *Handler) failed(w http.ResponseWriter, v *visit, f *failure) {
	data := struct {
		frame
		Detail string
	}{h.frame(f.title, ""), f.detail}
	if v.access == None { // a stranger does not learn the program's name
		data.Program, data.Spends = "Limits", false
	}
	h.render(w, f.status, "failed", data)
}

// latest returns the listing that all share, and waits for the first one. It is nil if there is
// none yet. The failure tells why the last one failed.
func (h *Handler) latest(ctx context.Context, wait time.Duration) (*listing, *failure) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	r, err := h.value.Latest(ctx)
	switch {
	case err != nil && r.Value == nil:
		return nil, &failure{
			status: http.StatusServiceUnavailable, title: "There is no listing yet",
			detail: "The first listing of the store has not ended. Load the page again in some seconds.",
		}
	case r.Err != nil:
		f := failureOf(r.Err)
		f.status = http.StatusServiceUnavailable
		f.detail = "At " + utc(r.At, h.clock()) + " it answered: " + f.detail
		return r.Value, f
	}
	return r.Value, nil
}

// shown returns the form in which the pages show a key.
func (h *Handler) shown(key string) string {
	if h.form == nil {
		return key
	}
	return h.form(key)
}

// keyOf returns the key of the bucket that is shown as form.
func (h *Handler) keyOf(ctx context.Context, form string) (string, *failure) {
	if err := store.ValidateKey(form); err != nil {
		return "", failureOf(err)
	}
	if h.form == nil {
		return form, nil
	}
	l, f := h.latest(ctx, patience)
	if l == nil {
		return "", f
	}
	for r := range l.under(form) {
		if r.form == form {
			return r.key, nil
		}
	}
	return "", &failure{
		status: http.StatusNotFound, title: "No such bucket",
		detail: "The last listing has no bucket of this form. The keys themselves are not shown here, and not looked up.",
	}
}

// stateOf reads a bucket now, by its last limit unless limit is given.
func (h *Handler) stateOf(ctx context.Context, key string, limit store.Limit) (store.State, *failure) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	states, err := h.store.Read(ctx, limit.For(key))
	if err != nil {
		return store.State{}, failureOf(err)
	}
	return states[0], nil
}

// figures are the texts about the state of a bucket.
type figures struct {
	Share, Percent, Level, Held, Capacity, Rate, Remaining, Empty, Blocked string
}

func newFigures(st store.State) figures {
	share := 0.0
	if st.Capacity > 0 {
		share = (st.Level + st.Held) / st.Capacity
	}
	f := figures{
		Share:   strconv.FormatFloat(min(1, share), 'f', 4, 64),
		Percent: strconv.FormatFloat(100*share, 'f', 1, 64) + " %",
		Level:   rounded(st.Level), Held: rounded(st.Held), Capacity: humanize.Units(st.Capacity), Rate: humanize.Units(st.LeakRate),
		Remaining: rounded(st.Remaining()), Empty: humanize.Span(wholeSeconds(st.TimeToEmpty())),
	}
	if !st.Empties.IsZero() {
		f.Rate = "all at " + humanize.Clock(st.Empties, st.At)
	}
	if st.BlockedUntil.After(st.At) {
		f.Blocked = humanize.Span(wholeSeconds(st.BlockedUntil.Sub(st.At)))
	}
	return f
}

// rounded writes an amount that changes all the time, to a thousandth.
func rounded(units float64) string {
	if units > 0 && units < 0.001 {
		return "< 0.001"
	}
	s := strconv.FormatFloat(units, 'f', 3, 64)
	return strings.TrimRight(strings.TrimRight(s, "0"), ".")
}

// wholeSeconds rounds a duration up to a second, or to a millisecond below a second.
func wholeSeconds(d time.Duration) time.Duration {
	to := time.Second
	if d < time.Second {
		to = time.Millisecond
	}
	if rest := d % to; rest > 0 && d < store.Never-to {
		d += to - rest
	}
	return d
}

// utc writes a time, with the date if that is not the date of now.
func utc(t, now time.Time) string {
	t, now = t.UTC(), now.UTC()
	if t.Truncate(24 * time.Hour).Equal(now.Truncate(24 * time.Hour)) {
		return t.Format("15:04:05 UTC")
	}
	return t.Format("2006-01-02 15:04:05 UTC")
}

// link returns the address of a page with parameters, which come in pairs. Empty ones are left out.
func link(page string, pairs ...string) string {
	query := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			query.Set(pairs[i], pairs[i+1])
		}
	}
	return page + "?" + query.Encode()
}

// plural writes a number of things.
func plural(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
