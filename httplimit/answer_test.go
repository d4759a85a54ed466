package httplimit

import (
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/internal/seed"
)

// Over divides, so capacity / leak rate is often a little more than the period. The fields must
// show the period that the application has written.
func TestFieldsShowThePeriod(t *testing.T) {
	const longest = int64(brim.Never / time.Second)
	s, err := seed.New()
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(s, 18))
	// upTo returns a whole number from 1 to most; small ones are as frequent as large ones.
	upTo := func(most int64) int64 { return min(most, int64(math.Exp(random.Float64()*math.Log(float64(most))))) }
	check := func(n, d int64) {
		t.Helper()
		limit := brim.Over(float64(n), time.Duration(d)*time.Second)
		full := brim.State{Level: limit.Capacity, Capacity: limit.Capacity, LeakRate: limit.LeakRate}
		draft, x := http.Header{}, http.Header{}
		parts := []part{{Policy: Policy{Name: "default", Limit: limit}, state: full}}
		DraftFields.set(draft, parts)
		XRateLimitFields.set(x, parts)
		quota := strconv.FormatInt(min(n, 999_999_999_999_999), 10)
		if got, want := draft.Get("RateLimit-Policy"), `"default";q=`+quota+";w="+strconv.FormatInt(d, 10); got != want {
			t.Fatalf("%d units in %d s: RateLimit-Policy %s; want %s (BRIM_SEED=%d)", n, d, got, want, s)
		}
		if got := x.Get("X-RateLimit-Reset"); got != strconv.FormatInt(d, 10) {
			t.Fatalf("%d units in %d s: X-RateLimit-Reset of a full bucket %s; want %d (BRIM_SEED=%d)", n, d, got, d, s)
		}
		if d%n == 0 { // one unit leaks in a whole number of seconds
			if got, want := draft.Get("RateLimit"), `"default";r=0;t=`+strconv.FormatInt(d/n, 10); got != want {
				t.Fatalf("%d units in %d s: RateLimit of a full bucket %s; want %s (BRIM_SEED=%d)", n, d, got, want, s)
			}
		}
	}
	small, samples := int64(120), 20_000
	if testing.Short() {
		small, samples = 60, 1_000
	}
	for n := range small {
		for d := range small {
			check(n+1, d+1)
		}
	}
	for range samples {
		n := upTo(1 << 53)
		check(n, upTo(longest))
		n = upTo(1 << 20)
		check(n, n*upTo(longest/n))
	}
}

// The costs of a refusal are as readable as the Content-Length that they come from.
func TestRefuseInFull(t *testing.T) {
	w := httptest.NewRecorder()
	Refuse(w, brim.State{Capacity: 10_000_000}, 12_345_678)
	if want := "costs 12345678 units and the limit is 10000000 at a time"; !strings.Contains(w.Body.String(), want) {
		t.Errorf("%s; want %q", w.Body, want)
	}
}

// TestFieldsOfQuota: w is the length of the period, and t the time to its end.
func TestFieldsOfQuota(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	noon := time.Date(2026, 3, 29, 12, 0, 0, 0, time.UTC) // a day of 23 hours in Berlin, which has 10 left
	for _, c := range []struct {
		name                string
		level               float64
		retry               time.Duration
		policy, rate, reset string
	}{
		{"empty", 0, 0, `"default";q=100;w=82800`, `"default";r=100`, "0"},
		{"in use", 40, 0, `"default";q=100;w=82800`, `"default";r=60;t=36000`, "36000"},
		{"full", 100, 10 * time.Hour, `"default";q=100;w=82800`, `"default";r=0;t=36000`, "36000"},
		{"never", 100, brim.Never, `"default";q=100;w=82800`, `"default";r=0;t=36000`, "36000"},
	} {
		limit := brim.Per(100, brim.Day, berlin)
		_, ends := limit.PeriodAt(noon)
		parts := []part{{
			Policy: Policy{Name: "default", Limit: limit},
			state:  brim.State{Level: c.level, Capacity: 100, At: noon, Empties: ends, RetryAfter: c.retry},
		}}
		draft, x := http.Header{}, http.Header{}
		DraftFields.set(draft, parts)
		XRateLimitFields.set(x, parts)
		if got := draft.Get("RateLimit-Policy"); got != c.policy {
			t.Errorf("%s: RateLimit-Policy %s; want %s", c.name, got, c.policy)
		}
		if got := draft.Get("RateLimit"); got != c.rate {
			t.Errorf("%s: RateLimit %s; want %s", c.name, got, c.rate)
		}
		if got := x.Get("X-RateLimit-Reset"); got != c.reset {
			t.Errorf("%s: X-RateLimit-Reset %s; want %s", c.name, got, c.reset)
		}
	}
}
