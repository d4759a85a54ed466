package sfvtest

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/httplimit"
	"github.com/brimgo/brim/memory"
)

// second is a policy with more room than all others, so it comes second in each list.
var second = httplimit.Policy{Name: "second", Limit: brim.Limit{Capacity: 1 << 52, LeakRate: 1}}

// item returns the name and the parameters of the first item of a field that is a list of two.
func item(t *testing.T, h http.Header, field string) (name string, params map[string]any) {
	t.Helper()
	list, err := httpsfv.UnmarshalList(h.Values(field))
	if err != nil || len(list) != 2 {
		t.Fatalf("%s: %q: %v", field, h.Values(field), err)
	}
	it, ok := list[0].(httpsfv.Item)
	if !ok {
		t.Fatalf("%s: %q is not an item", field, h.Values(field))
	}
	if name, ok = it.Value.(string); !ok {
		t.Fatalf("%s: %q does not start with a string", field, h.Values(field))
	}
	params = map[string]any{}
	for _, key := range it.Params.Names() {
		params[key], _ = it.Params.Get(key)
	}
	return name, params
}

func TestFieldsAreStructured(t *testing.T) {
	for _, tc := range []struct {
		name   string
		own    httplimit.Policy
		policy map[string]any
		rates  []map[string]any // one per request
		status []int
	}{
		{
			name: "plain", own: httplimit.Policy{Name: "plain", Limit: brim.Limit{Capacity: 2, LeakRate: 0.25}},
			policy: map[string]any{"q": int64(2), "w": int64(8)},
			rates: []map[string]any{
				{"r": int64(1), "t": int64(4)}, {"r": int64(0), "t": int64(4)}, {"r": int64(0), "t": int64(4)},
			},
			status: []int{200, 200, 429},
		},
		{
			name: "no leak", own: httplimit.Policy{Name: "for good", Limit: brim.Limit{Capacity: 1}},
			policy: map[string]any{"q": int64(1)},
			rates:  []map[string]any{{"r": int64(0)}, {"r": int64(0)}},
			status: []int{200, 429},
		},
		{
			name: "a name that needs escapes, and a unit",
			own: httplimit.Policy{
				Name: `a "b" \c`, Limit: brim.Limit{Capacity: 1 << 53, LeakRate: 1},
				Cost: func(*http.Request) float64 { return 2 }, Unit: "content-bytes",
			},
			policy: map[string]any{"q": int64(999_999_999_999_999), "w": int64(999_999_999_999_999), "qu": "content-bytes"},
			rates:  []map[string]any{{"r": int64(999_999_999_999_999), "t": int64(1)}},
			status: []int{200},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			noon := time.Date(2024, 6, 1, 12, 0, 0, 0, time.UTC)
			s := memory.New(&memory.Options{Clock: func() time.Time { return noon }})
			var policies httplimit.PolicyFunc = func(*http.Request) ([]httplimit.Policy, error) { return []httplimit.Policy{tc.own, second}, nil }
			wrap, err := httplimit.New(brim.New(s, nil), policies, &httplimit.Options{Fields: httplimit.DraftFields})
			if err != nil {
				t.Fatal(err)
			}
			srv := httptest.NewServer(wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
			defer srv.Close()
			want := tc.own.Name
			for i, status := range tc.status {
				resp, err := srv.Client().Get(srv.URL)
				if err != nil {
					t.Fatal(err)
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
				if resp.StatusCode != status {
					t.Errorf("status %d; want %d", resp.StatusCode, status)
				}
				name, params := item(t, resp.Header, "RateLimit-Policy")
				same(t, "RateLimit-Policy", name, params, want, tc.policy)
				name, params = item(t, resp.Header, "RateLimit")
				same(t, "RateLimit", name, params, want, tc.rates[i])
				if after := resp.Header.Get("Retry-After"); after != "" {
					seconds, err := strconv.ParseInt(after, 10, 64)
					if reset, _ := params["t"].(int64); err != nil || seconds < reset {
						t.Errorf("Retry-After %q; want t=%d or later\nwhy: the draft wants no Retry-After before t", after, reset)
					}
				}
			}
		})
	}
}

func same(t *testing.T, field, name string, params map[string]any, wantName string, want map[string]any) {
	t.Helper()
	if name != wantName {
		t.Errorf("%s: name %q; want %q", field, name, wantName)
	}
	if len(params) != len(want) {
		t.Errorf("%s: parameters %v; want %v", field, params, want)
	}
	for key := range want {
		if params[key] != want[key] {
			t.Errorf("%s: %s is %v (%T); want %v", field, key, params[key], params[key], want[key])
		}
	}
}
