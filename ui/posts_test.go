package ui

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/brimgo/brim/internal/uiapi"
)

// forms asks for a reset of the bucket a, twice, and returns the last form.
func (m *mounted) forms(t testing.TB, act, key, value string) url.Values {
	t.Helper()
	first := m.get(link("change", "act", act, "key", key)).want(t, http.StatusOK).fields()
	first.Set("reason", "load test")
	first.Set("value", value)
	second := m.post("change", first).want(t, http.StatusOK, "load test").fields()
	if second.Get("reason") != "load test" || second.Get("value") != value {
		t.Fatalf("the second form has %v", second)
	}
	return second
}

// level returns the level of the bucket of a key, or -1 if there is none.
func (m *mounted) level(t testing.TB, key string) float64 {
	t.Helper()
	st, err := m.lim.StateOf(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	if st.Capacity == 0 {
		return -1
	}
	return st.Level
}

func TestChanges(t *testing.T) {
	m := mount(t, nil)
	for _, tc := range []struct {
		act, value, done, logged string
		level                    float64
		blocked                  time.Duration
	}{
		{uiapi.Drain, "2.5", "taken out", "units=2.5", 2.5, 0},
		{uiapi.Block, "24h", "was blocked", "for=24h0m0s", 5, 24 * time.Hour},
		{uiapi.Block, "until-empty", "was blocked", "change=block", 5, 5 * time.Second},
		{uiapi.Unblock, "", "block has ended", "change=unblock", 5, 0},
		{uiapi.Reset, "", "was reset", "change=reset", -1, 0},
	} {
		if err := m.lim.Reset(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		m.fill(t, "a", 5)
		if tc.act == uiapi.Unblock {
			if _, err := m.lim.Block(t.Context(), "a", time.Hour); err != nil {
				t.Fatal(err)
			}
		}
		m.log.Reset()
		form := m.forms(t, tc.act, "a", tc.value)
		if m.log.Len() > 0 {
			t.Errorf("%s: a question is logged", tc.act)
		}
		p := m.post("act", form).want(t, http.StatusSeeOther)
		m.get(p.header.Get("Location")).want(t, http.StatusOK, tc.done)
		if got := m.level(t, "a"); got != tc.level {
			t.Errorf("%s: the level is %v, want %v", tc.act, got, tc.level)
		}
		st, err := m.lim.StateOf(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		if got := max(0, st.BlockedUntil.Sub(st.At)); got != tc.blocked {
			t.Errorf("%s: blocked for %v, want %v", tc.act, got, tc.blocked)
		}
		for _, want := range []string{tc.logged, `reason="load test"`, "who=192.0.2.1", "key=a", "level=INFO"} {
			if !strings.Contains(m.log.String(), want) {
				t.Errorf("%s: logged %s, want %s", tc.act, m.log, want)
			}
		}
		m.post("act", form).want(t, http.StatusForbidden, "too old") // the same form again
	}
}

// TestPosts posts a change of each kind from many origins, with and without access and token. Only
// a post from the page itself, by somebody who may act, with a token of its own, changes anything.
func TestPosts(t *testing.T) {
	m := mount(t, func(o *Options) { o.TrustedOrigins = []string{"https://trusted.example"} })
	origins := []struct {
		name, origin, site string
		good               bool
	}{
		{"the page", "http://ops.example", "same-origin", true},
		{"the page, without Sec-Fetch-Site", "http://ops.example", "", true},
		{"no browser", "", "", true},
		{"typed in", "", "none", true},
		{"a trusted origin", "https://trusted.example", "cross-site", true},
		{"another site", "https://evil.example", "cross-site", false},
		{"another site, by Origin alone", "https://evil.example", "", false},
		{"another site, without Origin", "", "cross-site", false},
		{"a sister site", "http://evil.ops.example", "same-site", false},
		{"another port", "http://ops.example:8080", "same-site", false},
		{"another port, by Origin alone", "http://ops.example:8080", "", false},
		{"no origin", "null", "cross-site", false},
		{"no origin, by Origin alone", "null", "", false},
		{"a longer name", "http://ops.example.evil.example", "", false},
		{"a trusted name with another scheme", "http://trusted.example", "", false},
	}
	tokens := []struct {
		name string
		good bool
		set  func(good string) string
	}{
		{"of the form", true, func(good string) string { return good }},
		{"missing", false, func(string) string { return "" }},
		{"invented", false, func(string) string { return "QUJD" }},
		{"not base64", false, func(string) string { return "§" }},
		{"of another change", false, func(string) string {
			return m.handler.tokens.make(toChange, "192.0.2.1", uiapi.Drain, "a", "", "load test")
		}},
		{"of another bucket", false, func(string) string {
			return m.handler.tokens.make(toChange, "192.0.2.1", uiapi.Reset, "b", "", "load test")
		}},
		{"of somebody else", false, func(string) string {
			return m.handler.tokens.make(toChange, "192.0.2.2", uiapi.Reset, "a", "", "load test")
		}},
		{"of another process", false, func(string) string {
			return newTokens(m.clock.Now).make(toChange, "192.0.2.1", uiapi.Reset, "a", "", "load test")
		}},
		{"of a program", false, func(string) string { return m.handler.tokens.make(toProgram, "192.0.2.1") }},
		{"stale", false, func(good string) string { m.clock.Advance(fresh); return good }},
		{"of the future", false, func(string) string {
			m.clock.Advance(time.Minute)
			token := m.handler.tokens.make(toChange, "192.0.2.1", uiapi.Reset, "a", "", "load test")
			m.clock.Advance(-time.Minute)
			return token
		}},
	}
	for _, origin := range origins {
		for _, access := range []Access{None, Look, Act} {
			for _, token := range tokens {
				m.access = Act
				m.fill(t, "a", 1)
				form := m.forms(t, uiapi.Reset, "a", "")
				form.Set("token", token.set(form.Get("token")))
				r := formPost("act", form)
				set := func(field, value string) {
					if r.Header.Del(field); value != "" {
						r.Header.Set(field, value)
					}
				}
				set("Origin", origin.origin)
				set("Sec-Fetch-Site", origin.site)
				m.access = access
				p := m.do(r)
				good := origin.good && access == Act && token.good
				gone := m.level(t, "a") < 0
				if gone != good || good != (p.code == http.StatusSeeOther) || !good && p.code != http.StatusForbidden {
					t.Errorf("%s, access %d, token %s: status %d, changed %v, want %v", origin.name, access, token.name, p.code, gone, good)
				}
			}
		}
	}
}

// TestProgramPosts does the same to the address for programs.
func TestProgramPosts(t *testing.T) {
	m := mount(t, nil)
	post := func(token, origin string) page {
		r := httptest.NewRequest(http.MethodPost, "http://ops.example/limits/api/change", strings.NewReader(`{"act":"reset","key":"a","reason":"why"}`))
		r.Header.Set(uiapi.TokenField, token)
		if origin != "" {
			r.Header.Set("Origin", origin)
		}
		return m.do(r)
	}
	own := func() string { return m.handler.tokens.make(toProgram, "192.0.2.1", uiapi.Reset, "a") }
	m.fill(t, "a", 1)
	m.access = Look
	post(own(), "").want(t, http.StatusForbidden)
	m.access = Act
	post("", "").want(t, http.StatusForbidden)
	post(own(), "https://evil.example").want(t, http.StatusForbidden)
	for _, allows := range [][]string{
		{toProgram, "192.0.2.1"},
		{toProgram, "192.0.2.1", uiapi.Reset, "b"},
		{toProgram, "192.0.2.1", uiapi.Drain, "a"},
		{toProgram, "192.0.2.2", uiapi.Reset, "a"},
	} {
		post(m.handler.tokens.make(allows...), "").want(t, http.StatusForbidden)
	}
	old := own()
	m.clock.Advance(fresh)
	post(old, "").want(t, http.StatusForbidden)
	if m.level(t, "a") < 0 {
		t.Error("a refused post changed the bucket")
	}
	token := own()
	post(token, "").want(t, http.StatusOK)
	if m.level(t, "a") >= 0 {
		t.Error("the bucket is still there")
	}
	post(token, "").want(t, http.StatusForbidden)
}

// TestTokenIsSpentOnce sends a spent token again with a line break in it, which base64 ignores.
func TestTokenIsSpentOnce(t *testing.T) {
	m := mount(t, nil)
	m.fill(t, "a", 5)
	form := m.forms(t, uiapi.Drain, "a", "1")
	m.post("act", form).want(t, http.StatusSeeOther)
	token := form.Get("token")
	for _, again := range []string{token + "\n", token[:8] + "\r\n" + token[8:]} {
		form.Set("token", again)
		m.post("act", form).want(t, http.StatusForbidden, "too old")
	}
	if level := m.level(t, "a"); level != 4 {
		t.Errorf("the level is %v after one drain of 1, want 4", level)
	}
}

// TestBadForms posts forms with values that cannot be.
func TestBadForms(t *testing.T) {
	m := mount(t, nil)
	m.fill(t, "a", 1)
	for _, tc := range []struct{ act, value, reason, says string }{
		{uiapi.Reset, "", "", "needs a reason"},
		{uiapi.Reset, "", strings.Repeat("x", 1001), "needs a reason"},
		{uiapi.Block, "", "why", "must be positive"},
		{uiapi.Block, "0s", "why", "must be positive"},
		{uiapi.Block, "90", "why", "must be positive"},
		{uiapi.Drain, "NaN", "why", "positive number"},
		{uiapi.Drain, "-1", "why", "positive number"},
		{uiapi.Drain, "1e300", "why", "positive number"},
	} {
		form := m.get(link("change", "act", tc.act, "key", "a")).fields()
		form.Set("value", tc.value)
		form.Set("reason", tc.reason)
		m.post("change", form).want(t, http.StatusBadRequest, tc.says, "<form")
	}
	m.get("change?act=explode&key=a").want(t, http.StatusNotFound)
	m.get("change?act=reset&key=").want(t, http.StatusBadRequest, "the key is empty")
	form := m.get("change?act=reset&key=a").fields()
	form.Set("key", "§")
	m.post("change", form).want(t, http.StatusBadRequest, "cannot be read")
	m.post("change", url.Values{"reason": {strings.Repeat("x", maxForm)}}).want(t, http.StatusBadRequest)
	m.store.down.Store(true)
	again := m.get("change?act=unblock&key=a").fields()
	again.Set("reason", "why")
	last := m.post("change", again).fields()
	m.post("act", last).want(t, http.StatusServiceUnavailable, "does not answer")
	if !strings.Contains(m.log.String(), "a change failed") {
		t.Error("the failure is not logged")
	}
}
