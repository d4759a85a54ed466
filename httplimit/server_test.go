package httplimit_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/httplimit"
)

// TestServer sends requests to a real server over 64 connections, each until it was refused 5
// times. 100 requests must be answered with 200 and all others with 429.
func TestServer(t *testing.T) {
	onEachBackend(t, func(t *testing.T, open opener) {
		const connections = 64
		lim, _ := open(t)
		srv := httptest.NewServer(limited(t, lim, httplimit.PerClient("site", brim.Limit{Capacity: 100}), nil))
		defer srv.Close()
		var served, refused atomic.Int64
		var wg sync.WaitGroup
		for range connections {
			wg.Go(func() {
				own := &http.Transport{} // has a connection of its own
				defer own.CloseIdleConnections()
				client := &http.Client{Transport: own}
				for refusals := 0; refusals < 5; {
					resp, err := client.Get(srv.URL)
					if err != nil {
						t.Error(err)
						return
					}
					_, _ = io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
					switch resp.StatusCode {
					case http.StatusOK:
						served.Add(1)
					case http.StatusTooManyRequests:
						refused.Add(1)
						refusals++
					default:
						t.Errorf("status %d", resp.StatusCode)
						return
					}
				}
			})
		}
		wg.Wait()
		if served.Load() != 100 || refused.Load() != 5*connections {
			t.Errorf("%d of 200 and %d of 429; want 100 and %d", served.Load(), refused.Load(), 5*connections)
		}
	})
}

// TestCurl checks the answers that curl prints.
func TestCurl(t *testing.T) {
	curl, err := exec.LookPath("curl")
	if err != nil {
		if os.Getenv("BRIM_TORTURE") == "1" {
			t.Fatal("curl is not on PATH: ", err)
		}
		t.Skip("curl is not on PATH")
	}
	lim, _ := inMemory(t)
	uploads := httplimit.Policy{
		Name: "uploads", Limit: brim.Limit{Capacity: 100, LeakRate: 0.4}, Cost: httplimit.ContentLength(1),
	}
	srv := httptest.NewServer(limited(t, lim, always(uploads), &httplimit.Options{Fields: httplimit.DraftFields}))
	defer srv.Close()
	for _, step := range []struct {
		body int
		want []string
		not  string // must be absent
	}{
		{99, []string{
			"HTTP/1.1 200 OK", `Ratelimit: "uploads";r=1;t=3`, `Ratelimit-Policy: "uploads";q=100;w=250`,
			"\r\n\r\nserved",
		}, "Retry-After"},
		{3, []string{
			"HTTP/1.1 429 Too Many Requests", "Retry-After: 5", `Ratelimit: "uploads";r=1;t=3`,
			"application/problem+json", `"status":429`, `"violated-policies":["uploads"]`,
		}, "served"},
		{101, []string{"HTTP/1.1 413 Request Entity Too Large", "application/problem+json", "101 units"}, "Retry-After"},
	} {
		out, err := exec.CommandContext(t.Context(), curl, "--silent", "--show-error", "--include", "--noproxy", "*",
			"--header", "Expect:", "--data-binary", strings.Repeat("x", step.body), srv.URL).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		for _, want := range step.want {
			if !strings.Contains(string(out), want) {
				t.Errorf("%d bytes: %q is missing in\n%s", step.body, want, out)
			}
		}
		if strings.Contains(string(out), step.not) {
			t.Errorf("%d bytes: %q is in\n%s", step.body, step.not, out)
		}
	}
}

// discard is a ResponseWriter that discards the answer.
type discard struct{ h http.Header }

func (d discard) Header() http.Header       { return d.h }
func (discard) Write(p []byte) (int, error) { return len(p), nil }
func (discard) WriteHeader(int)             {}
