package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/memory"
)

// endpoints answers requests without a network.
type endpoints func(r *http.Request) (status int, retryAfter string)

func (e endpoints) RoundTrip(r *http.Request) (*http.Response, error) {
	status, after := e(r)
	h := http.Header{}
	if after != "" {
		h.Set("Retry-After", after)
	}
	return &http.Response{StatusCode: status, Status: fmt.Sprint(status), Header: h, Body: io.NopCloser(strings.NewReader("")), Request: r}, nil
}

func events(n int, url string) string {
	return strings.Repeat(fmt.Sprintf(`{"url": %q, "body": {"n": 1}}`+"\n", url), n)
}

// TestSender sends events to endpoints of which one asks for a pause, and one fails. The others
// must not notice.
func TestSender(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.New(nil)
		begin := time.Now()
		var mu sync.Mutex
		at := map[string][]time.Duration{}
		s := &sender{
			lim: brim.New(db, nil), limit: brim.Limit{Capacity: 2, LeakRate: 1}, patience: time.Minute, attempts: 3,
			client: &http.Client{Transport: endpoints(func(r *http.Request) (int, string) {
				mu.Lock()
				defer mu.Unlock()
				at[r.URL.Host] = append(at[r.URL.Host], time.Since(begin))
				switch {
				case r.URL.Host == "down":
					return http.StatusInternalServerError, ""
				case r.URL.Host == "busy" && len(at["busy"]) == 1:
					return http.StatusTooManyRequests, "30"
				}
				return http.StatusNoContent, ""
			})},
		}
		var out strings.Builder
		in := events(4, "http://well/hook") + events(2, "http://busy/hook") + events(1, "http://down/hook") + events(1, "nowhere")
		if err := s.sendAll(t.Context(), strings.NewReader(in), &out); err != nil {
			t.Error(err)
		}
		for host, want := range map[string][]int{
			"well": {0, 0, 1, 2}, // two at once, and one a second
			"down": {0, 0, 1},
		} {
			got := at[host]
			slices.Sort(got)
			for i := range max(len(got), len(want)) {
				if len(got) != len(want) || got[i] < time.Duration(want[i])*time.Second || got[i] > time.Duration(want[i])*time.Second*12/10 {
					t.Errorf("%s gets events after %v; want %v seconds, and a little more", host, got, want)
					break
				}
			}
		}
		// The second event comes before the block, or waits for its end as the first does.
		if busy := at["busy"]; len(busy) != 3 || busy[0] != 0 || busy[1] != 0 && busy[1] < 30*time.Second || busy[2] < 30*time.Second {
			t.Errorf("the busy endpoint gets events after %v; want none within its pause of 30 s", busy)
		}
		for _, want := range []string{"line 7: the endpoint answers 500", "line 8: the event has no valid URL", "6 of 8 events were sent"} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%q does not say %q", &out, want)
			}
		}
		// An event that would wait for too long is refused at once.
		s.patience = 5 * time.Second
		out.Reset()
		before := time.Now()
		if _, err := s.lim.Block(t.Context(), "endpoint:busy", time.Hour); err != nil {
			t.Fatal(err)
		}
		if err := s.sendAll(t.Context(), strings.NewReader(events(1, "http://busy/hook")), &out); err != nil {
			t.Error(err)
		}
		if !strings.Contains(out.String(), "it would fit in 1h0m0s") || time.Since(before) != 0 {
			t.Errorf("%q after %v; want a refusal at once", &out, time.Since(before))
		}
	})
}

// TestRun sends events over the network. A second run finds the limit in the file.
func TestRun(t *testing.T) {
	var requests atomic.Int64
	endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || string(body) != `{"n": 1}` {
			t.Errorf("the endpoint got %q, %v", body, err)
		}
		requests.Add(1)
		w.WriteHeader(http.StatusNoContent)
	}))
	defer endpoint.Close()
	args := []string{"-file", filepath.Join(t.TempDir(), "webhooks.db"), "-burst", "3", "-rate", "0.001", "-patience", "1m"}
	for _, want := range []string{"3 of 4 events were sent", "0 of 4 events were sent"} {
		var out strings.Builder
		if err := run(t.Context(), args, strings.NewReader(events(4, endpoint.URL)), &out); err != nil || !strings.Contains(out.String(), want) {
			t.Errorf("%q, %v; want %q", &out, err, want)
		}
	}
	if requests.Load() != 3 {
		t.Errorf("the endpoint got %d events; want 3", requests.Load())
	}
	for _, c := range []struct {
		args []string
		in   string
	}{{args, "no JSON"}, {append(args, "-rate", "-1"), ""}, {[]string{"-file", t.TempDir()}, ""}} {
		var out strings.Builder
		if err := run(t.Context(), c.args, strings.NewReader(c.in), &out); err == nil && len(c.in) > 0 {
			t.Errorf("%v of %q: no error", c.args, c.in)
		}
	}
}
