package httplimit_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/brimgo/brim/httplimit"
)

// TestRefuseSendsTheStatus: whatever a Refuse leaves out, net/http must not add status 200.
func TestRefuseSendsTheStatus(t *testing.T) {
	for _, tc := range []struct {
		name   string
		refuse func(t *testing.T, w http.ResponseWriter)
		cost   string
		status int
		body   string
	}{
		{"nothing", func(*testing.T, http.ResponseWriter) {}, "5", http.StatusTooManyRequests, ""},
		{"nothing, and no wait helps", func(*testing.T, http.ResponseWriter) {}, "11", http.StatusRequestEntityTooLarge, ""},
		{"a body", func(_ *testing.T, w http.ResponseWriter) {
			_, _ = io.WriteString(w, "slow ")
			_, _ = io.WriteString(w, "down")
		}, "5", http.StatusTooManyRequests, "slow down"},
		{"an informational status", func(_ *testing.T, w http.ResponseWriter) {
			w.WriteHeader(http.StatusEarlyHints)
		}, "5", http.StatusTooManyRequests, ""},
		{"a flush", func(t *testing.T, w http.ResponseWriter) {
			if err := http.NewResponseController(w).Flush(); err != nil {
				t.Error(err)
			}
			_, _ = io.WriteString(w, "slow down")
		}, "5", http.StatusTooManyRequests, "slow down"},
		{"a deadline", func(t *testing.T, w http.ResponseWriter) {
			if err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(time.Minute)); err != nil {
				t.Error(err)
			}
		}, "5", http.StatusTooManyRequests, ""},
		{"a status of its own", func(_ *testing.T, w http.ResponseWriter) {
			w.WriteHeader(http.StatusTeapot)
			_, _ = io.WriteString(w, "tea?")
		}, "5", http.StatusTeapot, "tea?"},
		{"a connection of its own", func(t *testing.T, w http.ResponseWriter) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			_, _ = io.WriteString(conn, "HTTP/1.1 418 I'm a teapot\r\nRetry-After: 3\r\nConnection: close\r\n\r\ntea?")
		}, "5", http.StatusTeapot, "tea?"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			lim, _ := inMemory(t)
			server := httptest.NewServer(limited(t, lim, always(httplimit.Policy{Name: "p", Key: "k", Limit: tens, Cost: costOf}), &httplimit.Options{
				Refuse: func(w http.ResponseWriter, _ *http.Request, _ httplimit.Refusal) { tc.refuse(t, w) },
			}))
			defer server.Close()
			if st, err := lim.TryFillup(t.Context(), tens.For("p:key:k"), 8); err != nil || !st.Accepted {
				t.Fatal(st, err)
			}
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/?cost="+tc.cost, nil)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := server.Client().Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			wait := ""
			if tc.cost == "5" {
				wait = "3"
			}
			if got := resp.Header.Get("Retry-After"); err != nil || resp.StatusCode != tc.status || string(body) != tc.body || got != wait {
				t.Errorf("%d, Retry-After %q, %q, %v; want %d, %q, %q", resp.StatusCode, got, body, err, tc.status, wait, tc.body)
			}
		})
	}
}
