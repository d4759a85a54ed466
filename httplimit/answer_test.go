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
