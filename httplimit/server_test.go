package httplimit_test

import (
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/httplimit"
)

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
