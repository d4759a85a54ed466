package ui

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/brimgo/brim/internal/differ"
	"github.com/brimgo/brim/internal/uiapi"
	"github.com/brimgo/brim/store"
)

// client returns a client of a page that is served over TCP. The page asks for a token.
func (m *mounted) client(t testing.TB, token string) *uiapi.Client {
	t.Helper()
	allow := Bearer("let-me-in-please", Act)
	m.handler.allow = func(r *http.Request) Access { return min(allow(r), m.access) }
	mux := http.NewServeMux()
	mux.Handle("/limits/", m)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	c, err := uiapi.NewClient(server.URL+"/limits", token)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestClient(t *testing.T) {
	m := mount(t, func(o *Options) {
		o.Who = func(*http.Request) string { return "ops" }
		o.Check = func(context.Context) ([]store.Finding, error) {
			return []store.Finding{{Severity: store.Warning, Subject: "free space", Problem: "little", Remedy: "make room"}}, nil
		}
	})
	for _, key := range hostile {
		m.fill(t, key, 5)
	}
	if _, err := m.lim.Block(t.Context(), "~blocked", time.Hour); err != nil {
		t.Fatal(err)
	}
	c := m.client(t, "let-me-in-please")

	var want []string
	want = append(want, hostile...)
	want = append(want, "~blocked")
	slices.Sort(want)
	l, entries, err := c.List(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for e, err := range entries {
		if err != nil {
			t.Fatal(err)
		}
		st, err := m.lim.StateOf(t.Context(), e.Key)
		if d := differ.Fields(e.State(), st); err != nil || d != "" {
			t.Errorf("%q, error %v:\n%s", e.Key, err, d)
		}
		got = append(got, e.Key)
	}
	slices.Sort(got)
	if !slices.Equal(got, want) || l.Buckets != int64(len(want)) || l.Listed != l.Buckets || l.Damaged || !l.At.Equal(m.clock.Now()) {
		t.Errorf("%+v: %q, want %q", l, got, want)
	}
	_, entries, err = c.List(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	for e, err := range entries { // the caller may leave
		if err != nil {
			t.Error(err)
		}
		if !strings.HasPrefix(e.Key, "a") {
			t.Errorf("%q has no such prefix", e.Key)
		}
		break
	}

	st, err := c.State(t.Context(), "../../etc", store.Limit{})
	if err != nil || st.Level != 5 || st.Capacity != 10 {
		t.Errorf("%+v, %v", st, err)
	}
	for key, leaks := range map[string]float64{"../../etc": 1, "../../none": 1.0 / 3} {
		st, err = c.State(t.Context(), key, store.Limit{Capacity: 7, LeakRate: 1.0 / 3})
		if err != nil || st.Capacity != 7 || st.LeakRate != leaks {
			t.Errorf("%s: %+v, %v; want capacity 7 and rate %v", key, st, err, leaks)
		}
	}
	findings, err := c.Findings(t.Context())
	if err != nil || fmt.Sprint(findings) != "[{warning free space little make room}]" {
		t.Errorf("%v, %v", findings, err)
	}

	block := uiapi.Change{Act: uiapi.Block, Key: "../../etc", Reason: "attack"}
	block.SetBlockFor(time.Minute)
	st, err = c.Change(t.Context(), block)
	if err != nil || !st.BlockedUntil.Equal(st.At.Add(time.Minute)) {
		t.Errorf("%+v, %v", st, err)
	}
	if st, err = c.Change(t.Context(), uiapi.Change{Act: uiapi.Unblock, Key: "../../etc", Reason: "over"}); err != nil || !st.BlockedUntil.IsZero() {
		t.Errorf("%+v, %v", st, err)
	}
	block = uiapi.Change{Act: uiapi.Block, Key: "new", Reason: "attack"}
	block.SetBlockFor(store.Never)
	if st, err = c.Change(t.Context(), block); err != nil || st.BlockedUntil.UnixMicro() != store.MaxTime {
		t.Errorf("a block for ever of a new bucket: %+v, %v", st, err)
	}
	for _, key := range hostile {
		if _, err = c.Change(t.Context(), uiapi.Change{Act: uiapi.Reset, Key: key, Reason: "test"}); err != nil || m.level(t, key) != -1 {
			t.Errorf("%q was not reset: %v", key, err)
		}
	}
	if !strings.Contains(m.log.String(), "who=ops") || !strings.Contains(m.log.String(), "reason=attack") {
		t.Errorf("logged %s", m.log)
	}
}

func TestClientErrors(t *testing.T) {
	m := mount(t, nil)
	m.fill(t, "a", 5)
	c := m.client(t, "let-me-in-please")
	list := func(c *uiapi.Client) error {
		_, entries, err := c.List(t.Context(), "")
		if err != nil {
			return err
		}
		for _, err := range entries {
			if err != nil {
				return err
			}
		}
		return nil
	}
	change := func(change uiapi.Change) error {
		_, err := c.Change(t.Context(), change)
		return err
	}
	for _, tc := range []struct {
		name string
		err  error
		want error
	}{
		{"no token", list(m.client(t, "")), uiapi.ErrForbidden},
		{"wrong token", list(m.client(t, "let-me")), uiapi.ErrForbidden},
		{"no findings", func() error { _, err := c.Findings(t.Context()); return err }(), errors.ErrUnsupported},
		{"state of no key", func() error { _, err := c.State(t.Context(), "", store.Limit{}); return err }(), store.ErrInvalidKey},
		{"bad limit", func() error {
			_, err := c.State(t.Context(), "a", store.Limit{Capacity: -1})
			return err
		}(), store.ErrInvalidLimit},
		{"unknown change", change(uiapi.Change{Act: "explode", Key: "a", Reason: "why"}), errors.ErrUnsupported},
		{"no key", change(uiapi.Change{Act: uiapi.Reset, Reason: "why"}), store.ErrInvalidKey},
		{"no reason", change(uiapi.Change{Act: uiapi.Reset, Key: "a"}), uiapi.ErrReason},
		{"a long reason", change(uiapi.Change{Act: uiapi.Reset, Key: "a", Reason: strings.Repeat("x", 1001)}), uiapi.ErrReason},
		{"block for no time", change(uiapi.Change{Act: uiapi.Block, Key: "a", Reason: "why"}), store.ErrInvalidLimit},
		{"block for less than no time", change(uiapi.Change{Act: uiapi.Block, Key: "a", Micros: -2, Reason: "why"}), store.ErrInvalidLimit},
		{"drain of nothing", change(uiapi.Change{Act: uiapi.Drain, Key: "a", Reason: "why"}), store.ErrInvalidAmount},
		{"drain of less", change(uiapi.Change{Act: uiapi.Drain, Key: "a", Amount: -1, Reason: "why"}), store.ErrInvalidAmount},
		{"drain of too much", change(uiapi.Change{Act: uiapi.Drain, Key: "a", Amount: 1e300, Reason: "why"}), store.ErrInvalidAmount},
	} {
		if !errors.Is(tc.err, tc.want) {
			t.Errorf("%s: %v, want %v", tc.name, tc.err, tc.want)
		}
	}
	m.store.down.Store(true)
	if err := change(uiapi.Change{Act: uiapi.Unblock, Key: "a", Reason: "why"}); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("%v, want an unavailable store", err)
	}
	m.access = Look
	if err := change(uiapi.Change{Act: uiapi.Unblock, Key: "a", Reason: "why"}); !errors.Is(err, uiapi.ErrForbidden) {
		t.Errorf("%v, want it forbidden", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.State(ctx, "a", store.Limit{}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want the end of the context", err)
	}
}

// TestOtherServers asks servers that are no page of package ui.
func TestOtherServers(t *testing.T) {
	stolen := ""
	thief := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { stolen = r.Header.Get("Authorization") }))
	defer thief.Close()
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	for name, answer := range map[string]http.HandlerFunc{
		"html":     func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") },
		"empty":    func(http.ResponseWriter, *http.Request) {},
		"notfound": http.NotFound,
		"redirect": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, thief.URL, http.StatusFound) },
		"broken":   func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"escape": func(w http.ResponseWriter, _ *http.Request) {
			problem(w, &failure{status: 503, title: "x", detail: "bell\a\x1b[31m"})
		},
	} {
		server := httptest.NewServer(answer)
		c, err := uiapi.NewClient(server.URL, "secret")
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.State(t.Context(), "the key", store.Limit{})
		if !errors.Is(err, store.ErrUnavailable) || strings.Contains(err.Error(), "the key") || strings.Contains(err.Error(), "\x1b") {
			t.Errorf("%s: %v", name, err)
		}
		_, _, err = c.List(t.Context(), "")
		if !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("%s: %v", name, err)
		}
		server.Close()
	}
	if stolen != "" {
		t.Error("the token follows a redirect")
	}
	for _, address := range []string{"http://", "http://h/?a=b", "http://h/#a", "http://user:pw@h:x/"} {
		if _, err := uiapi.NewClient(address, ""); err == nil || strings.Contains(err.Error(), "pw") {
			t.Errorf("%s: %v", address, err)
		}
	}
	if _, err := uiapi.NewClient("http://h", "a\nb"); err == nil {
		t.Error("a token with a line break is taken")
	}
	c, err := uiapi.NewClient("https://user:pw@h/limits", "t")
	if err != nil || c.String() != "https://h/limits/" {
		t.Errorf("%v, %v", c, err)
	}
	for name, want := range map[string]bool{"http://h": true, "HTTPS://h": true, "http:h": false, "limits.db": false, "redis://h": false} {
		if uiapi.IsAddress(name) != want {
			t.Errorf("%s: %v", name, !want)
		}
	}
}

// TestClientRefused asks who is limited now.
func TestClientRefused(t *testing.T) {
	m := mount(t, nil)
	c := m.client(t, "let-me-in-please")
	if list, err := c.Refused(t.Context(), ""); err != nil || len(list) != 0 {
		t.Errorf("before any refusal: %v, %v", list, err)
	}
	begin := m.clock.Now()
	for range 20 {
		m.clock.Advance(time.Second)
		for key, n := range map[string]int{"card:1": 3, "card:2": 1, "user:1": 2} {
			for range n {
				if _, err := m.lim.TryFillup(t.Context(), ten.For(key), 11); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	until, err := m.lim.Block(t.Context(), "card:2", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	list, err := c.Refused(t.Context(), "card:")
	if err != nil || len(list) != 2 {
		t.Fatalf("%+v, %v", list, err)
	}
	for i, want := range []uiapi.Refused{
		{Key: "card:1", Rate: 3, Refused: 60}, {Key: "card:2", Rate: 1, Refused: 20, BlockedUntil: until.BlockedUntil},
	} {
		got := list[i]
		if got.Key != want.Key || math.Abs(got.Rate-want.Rate) > 0.3*want.Rate || got.Refused != want.Refused || !got.BlockedUntil.Equal(want.BlockedUntil) ||
			got.Since.Sub(begin) > 2*time.Second || m.clock.Now().Sub(got.Last) > time.Second {
			t.Errorf("%+v; want %+v", got, want)
		}
	}
	m.handler.recorded = false
	if _, err := c.Refused(t.Context(), ""); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("without a Recorder: %v", err)
	}
}
