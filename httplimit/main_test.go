package httplimit_test

import (
	"net/http"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/brimtest"
	"github.com/brimgo/brim/httplimit"
	"github.com/brimgo/brim/internal/redistest"
	"github.com/brimgo/brim/internal/redistest/buckets"
	"github.com/brimgo/brim/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(redistest.With(m)) }

// tens is the limit of a bucket that holds 10 units and leaks one per second.
var tens = brim.Limit{Capacity: 10, LeakRate: 1}

func newManual() *brimtest.Clock {
	return brimtest.NewClock(time.Date(2024, 2, 29, 23, 59, 50, 0, time.UTC))
}

// inMemory returns a Limiter over an empty store, and its clock.
func inMemory(t testing.TB) (*brim.Limiter, *brimtest.Clock) {
	t.Helper()
	clock := newManual()
	s := memory.New(&memory.Options{Clock: clock.Now})
	return brim.New(s, nil), clock
}

// opener returns a Limiter over an empty store, and its clock.
type opener func(testing.TB) (*brim.Limiter, *brimtest.Clock)

// onEachBackend runs a test over stores in the process and on a server.
func onEachBackend(t *testing.T, test func(t *testing.T, open opener)) {
	t.Helper()
	t.Run("memory", func(t *testing.T) { test(t, inMemory) })
	t.Run("redis", func(t *testing.T) {
		test(t, func(t testing.TB) (*brim.Limiter, *brimtest.Clock) {
			t.Helper()
			clock := newManual()
			return brim.New(buckets.Open(t, clock.Now), nil), clock
		})
	})
}

// onRealClock returns a Limiter over an empty store that uses the system's clock.
func onRealClock(t testing.TB) *brim.Limiter {
	t.Helper()
	s := memory.New(nil)
	return brim.New(s, nil)
}

// always returns the same policies for each request.
func always(all ...httplimit.Policy) httplimit.Policies {
	return func(*http.Request) ([]httplimit.Policy, error) { return all, nil }
}

// limited puts policies in front of a handler that answers 200.
func limited(t testing.TB, lim *brim.Limiter, policies httplimit.Policies, o *httplimit.Options) http.Handler {
	t.Helper()
	wrap, err := httplimit.New(lim, policies, o)
	if err != nil {
		t.Fatal(err)
	}
	return wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("served")) }))
}
