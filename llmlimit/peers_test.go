package llmlimit

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/memledger"
	"github.com/brimgo/brim/store"
)

// The tests below are situations in which other gateways lost count, by their public issues and
// documentation; docs/llm.md names them.

// TestPeerLeak: of calls that end in every way, none leaves a reservation behind. LiteLLM's
// counters kept those of some ends, until keys without any spend were refused.
func TestPeerLeak(t *testing.T) {
	ends := []http.HandlerFunc{
		say(200, jsonType, okChat), say(200, jsonType, `{}`), say(400, jsonType, refusing), say(429, jsonType, refusing),
		say(500, jsonType, refusing), say(502, "text/html", "no"), cutOff(sse, events(chatChunk)), cutOff(jsonType, "{"),
		func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	}
	var w *world
	w = newWorld(t, memledger.New(nil), 1_000_000, func(rw http.ResponseWriter, r *http.Request) {
		ends[int(w.calls.Load()-1)%len(ends)](rw, r)
	})
	calls := w.transport(Options{})
	for range 4 * len(ends) {
		_, _, _ = w.post(inLevels(t.Context()), calls, chatPath, askChat)
	}
	charged := int64(0)
	w.mu.Lock()
	for _, c := range w.done {
		charged += c.Charged.Minor
	}
	w.mu.Unlock()
	if used, held := w.paid(); used != charged || held != 0 || len(w.done) != 4*len(ends) {
		t.Errorf("%d are used and %d held after %d calls that cost %d", used, held, len(w.done), charged)
	}
}

// TestPeerTwice: the settlement fails after a part of it was made, and is sent again. LiteLLM
// counted the reservation and the cost, on the levels that it had reached.
func TestPeerTwice(t *testing.T) {
	for _, made := range []bool{false, true} {
		f := &flaky{Ledger: memledger.New(nil), after: 1 << 30}
		w := newWorld(t, f, 1000, say(200, jsonType, okChat))
		f.after, f.fails, f.err, f.made = 1, 7, store.ErrUnknownOutcome, made
		if _, _, err := w.post(inLevels(t.Context()), w.transport(Options{TTL: 2 * time.Second}), chatPath, askChat); err != nil {
			t.Fatal(err)
		}
		if used, held := w.paid(); used != 50 || held != 0 {
			t.Errorf("made %v: %d are used and %d held; want 50", made, used, held)
		}
	}
}

// TestPeerLevel: every level is in the decision. LiteLLM's reservation left out projects, so that
// calls at the same time overshot their budget.
func TestPeerLevel(t *testing.T) {
	const limit = 400 // of the organization; a call is held at 130
	meet := make(chan struct{})
	w := newWorld(t, memledger.New(nil), 1_000_000, func(rw http.ResponseWriter, r *http.Request) {
		<-meet
		say(200, jsonType, okChat)(rw, r)
	})
	orgs, err := w.budgets.ForBudget(t.Context(), "orgs")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := orgs.SetLimits(t.Context(), spend.LimitsRequest{
		ID: "limit", Account: "acme", Limits: []spend.RuleLimit{{Rule: "month", Amount: spend.Money{Minor: limit, Currency: "USD:8"}}},
	}); err != nil {
		t.Fatal(err)
	}
	atOnce(t, w, 20, 3, meet)
	if used, held := w.paid(); used != 150 || held != 0 {
		t.Errorf("%d are used and %d held; want 150", used, held)
	}
}

// TestPeerAfterwards: calls at the same time count before their answers. Gateways that count an
// answer at its end, such as Envoy AI Gateway, agentgateway and Kuadrant without reservations,
// admit all of them.
func TestPeerAfterwards(t *testing.T) {
	meet := make(chan struct{})
	w := newWorld(t, memledger.New(nil), 300, func(rw http.ResponseWriter, r *http.Request) {
		<-meet
		say(200, sse, events(chatChunk, chatUsage, "[DONE]"))(rw, r)
	})
	atOnce(t, w, 20, 2, meet)
	if used, held := w.paid(); used != 100 || held != 0 {
		t.Errorf("%d are used and %d held; want 100", used, held)
	}
}

// atOnce makes n calls at the same time, of which some fit. The others are refused while those
// wait.
func atOnce(t *testing.T, w *world, n, fit int, meet chan struct{}) {
	t.Helper()
	calls, codes := w.transport(Options{}), make(chan int, n)
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			resp, _, err := w.post(inLevels(t.Context()), calls, chatPath, askChat)
			if err != nil {
				t.Error(err)
				codes <- 0
				return
			}
			codes <- resp.StatusCode
		})
	}
	for range n - fit {
		if code := <-codes; code != http.StatusTooManyRequests {
			t.Errorf("a call beside %d others is answered with %d; want 429", fit, code)
		}
	}
	close(meet)
	all.Wait()
}

// TestPeerUnpriced: a success whose price nobody knows is charged all that was held. LiteLLM
// released the reservation and recorded nothing.
func TestPeerUnpriced(t *testing.T) {
	w := newWorld(t, memledger.New(nil), 1000, say(200, jsonType, strings.Replace(okChat, `"usage"`, `"service_tier":"priority","usage"`, 1)))
	if _, _, err := w.post(inLevels(t.Context()), w.transport(Options{}), chatPath, askChat); err != nil {
		t.Fatal(err)
	}
	if used, held := w.paid(); used != heldChat || held != 0 {
		t.Errorf("%d are used and %d held; want %d", used, held, heldChat)
	}
}

// TestPeerHolds: a charge that holds nothing counts the holds of others. Midaz' synchronous check
// looked at the used money alone, so both together came near to twice the limit.
func TestPeerHolds(t *testing.T) {
	var w *world
	w = newWorld(t, memledger.New(nil), 150, func(rw http.ResponseWriter, r *http.Request) {
		d, err := w.budgets.Charge(t.Context(), spend.Request{
			ID: fmt.Sprint("charge-", w.calls.Load()), Account: levels[0].Name, Amount: spend.Money{Minor: 100, Currency: "USD:8"},
		})
		if err != nil || d.Approved {
			t.Errorf("beside a hold of %d, a charge of 100 from 150: %+v, %v", heldChat, d, err)
		}
		say(200, jsonType, okChat)(rw, r)
	})
	if _, _, err := w.post(inLevels(t.Context()), w.transport(Options{}), chatPath, askChat); err != nil {
		t.Fatal(err)
	}
	if used, held := w.paid(); used != 50 || held != 0 {
		t.Errorf("%d are used and %d held; want 50", used, held)
	}
}
