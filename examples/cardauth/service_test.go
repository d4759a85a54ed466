package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brimgo/brim/internal/differ"
	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/spend/memledger"
	"github.com/brimgo/brim/store"
)

// stalling is a ledger that may stall or be away.
type stalling struct {
	ledger.Ledger
	fault atomic.Int32
}

const (
	healthy int32 = iota
	stalls        // no decision, and no answer
	mute          // a decision, and no answer
	away          // neither, at once
)

func (l *stalling) Decide(ctx context.Context, job *ledger.Job) error {
	switch l.fault.Load() {
	case stalls:
		<-ctx.Done()
		return ctx.Err()
	case mute:
		if err := l.Ledger.Decide(ctx, job); err != nil {
			return err
		}
		<-ctx.Done()
		return fmt.Errorf("%w: %w", store.ErrUnknownOutcome, ctx.Err())
	case away:
		return fmt.Errorf("%w: connection refused", store.ErrUnavailable)
	}
	return l.Ledger.Decide(ctx, job)
}

// network sends messages to a service.
type network struct {
	*testing.T
	*stalling
	*service
	end func()
}

// newNetwork returns a network in front of a service with a ledger in memory and the rules of the
// example.
func newNetwork(t *testing.T) *network {
	t.Helper()
	budget, err := readRules("")
	if err != nil {
		t.Fatal(err)
	}
	l := &stalling{Ledger: memledger.New(nil)}
	cards, err := spend.New(t.Context(), l, budget, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	s := newService(ctx, cards)
	return &network{t, l, s, func() {
		end()
		s.work.Wait()
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}}
}

// reply is the answer to a message.
type reply struct {
	status    int
	took      time.Duration
	wait      string // Retry-After
	Approved  bool
	Replayed  bool
	Canceled  bool
	Amount    *spend.Money
	Declines  []spend.Decline
	Shadow    []spend.Usage
	Detail    string
	Rules     []spend.Usage
	Holds     []spend.Status
	mediaType string
	body      string
}

// send sends a message, which is a question without a body for GET.
func (n *network) send(method, path, key, body string) (got reply) {
	n.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set("Idempotency-Key", key)
	w := httptest.NewRecorder()
	start := time.Now()
	n.handler().ServeHTTP(w, r)
	got.status, got.took, got.wait, got.mediaType = w.Code, time.Since(start), w.Header().Get("Retry-After"), w.Header().Get("Content-Type")
	got.body = w.Body.String()
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
		n.Errorf("%s: %d, %s: %v", path, w.Code, w.Body, err)
	}
	if problem := got.mediaType == "application/problem+json"; problem != (got.status >= 400) || !problem && got.mediaType != "application/json" {
		n.Errorf("%s: %d is of the type %s", path, got.status, got.mediaType)
	}
	return got
}

// pay returns the message of a payment, with more fields.
func pay(amount, category, more string) string {
	return fmt.Sprintf(`{"card":"7","amount":%s,"tags":{"category":%q}%s}`, eur(amount), category, more)
}

func eur(amount string) string { return `{"amount":"` + amount + `","currency":"EUR"}` }

// line describes the answer for the story of a day.
func (got *reply) line() string {
	s := fmt.Sprint(got.status)
	switch {
	case got.status >= 400 && got.status != http.StatusPaymentRequired:
		words := strings.SplitN(got.Detail, ":", 3) // the rest has details of package spend
		s += " " + strings.Join(words[:min(2, len(words))], ":")
	case got.Replayed:
		s += " again"
	}
	if got.Amount != nil {
		s += " " + got.Amount.String()
	}
	if got.Canceled {
		s += " canceled"
	}
	for i := range got.Declines {
		s += " " + got.Declines[i].Rule + got.Declines[i].Frozen
	}
	if got.wait != "" {
		s += ", wait " + got.wait + " s"
	}
	return s
}

// TestDay sends the messages of a card's day, and compares the answers with testdata/day.txt.
func TestDay(t *testing.T) {
	want, err := os.ReadFile("testdata/day.txt")
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		defer n.end()
		midnight, got := time.Now(), ""
		for _, m := range []struct{ at, event, path, key, body string }{
			{"08:00", "the bus holds a fare", "/authorizations", "bus", pay("2.90", "transit", "")},
			{"08:10", "coffee", "/authorizations", "coffee", pay("3.20", "food", "")},
			{"", "the terminal sends the coffee again", "/authorizations", "coffee", pay("3.20", "food", "")},
			{"", "it sends another amount", "/authorizations", "coffee", pay("3.30", "food", "")},
			{"", "the coffee is paid", "/authorizations/coffee/captures", "coffee-end", `{"amount":` + eur("3.20") + `}`},
			{"09:00", "a hotel holds three nights", "/authorizations", "hotel", pay("360.00", "hotel", "")},
			{"09:30", "a flight does not fit beside it", "/authorizations", "flight", pay("120.00", "travel", "")},
			{"", "a part of it will do", "/authorizations", "flight-2", pay("120.00", "travel", `,"least":`+eur("20.00"))},
			{"", "its merchant gives up", "/authorizations/flight-2/void", "flight-void", ""},
			{"", "and asks for the money", "/authorizations/flight-2/captures", "flight-end", `{"amount":` + eur("40.00") + `,"final":true}`},
			{"", "the money goes back", "/authorizations/flight-2/refunds", "flight-back", `{"amount":` + eur("40.00") + `}`},
			{"11:00", "the first night", "/authorizations/hotel/captures", "night-1", `{"amount":` + eur("120.00") + `}`},
			{"", "the guest wants a fourth", "/authorizations/hotel/increments", "night-4", `{"amount":` + eur("120.00") + `}`},
			{"", "or breakfast", "/authorizations/hotel/increments", "eggs", `{"amount":` + eur("120.00") + `,"least":` + eur("20.00") + `}`},
			{"12:40", "a restaurant", "/authorizations", "lunch", pay("60.00", "food", "")},
			{"13:20", "with a tip", "/authorizations/lunch/captures", "lunch-end", `{"amount":` + eur("66.00") + `,"final":true}`},
			{"14:00", "no answer has come, so the network cancels", "/authorizations/fuel/cancel", "-", `{"card":"7"}`},
			{"", "the request comes late", "/authorizations", "fuel", pay("100.00", "fuel", "")},
			{"15:00", "shoes", "/authorizations", "shoes", pay("90.00", "shop", "")},
			{"", "are paid", "/authorizations/shoes/captures", "shoes-end", `{"amount":` + eur("90.00") + `}`},
			{"15:30", "one of two pairs goes back", "/authorizations/shoes/refunds", "shoes-back", `{"amount":` + eur("40.00") + `}`},
			{"", "and more than they cost", "/authorizations/shoes/refunds", "shoes-back-2", `{"amount":` + eur("60.00") + `}`},
			{"16:00", "the network has stood in", "/advices", "stand-in", pay("450.00", "travel", `,"dated":"2000-01-01T15:10:00Z"`)},
			{"", "it presents", "/authorizations/stand-in/captures", "stand-in-end", `{"amount":` + eur("450.00") + `,"final":true}`},
			{"", "a kiosk had no line at noon", "/records", "kiosk", pay("4.00", "food", `,"dated":"2000-01-01T12:00:00Z"`)},
			{"", "the card is topped up", "/credits", "salary", pay("50.00", "", "")},
			{"16:30", "a casino", "/authorizations", "chips", pay("1.00", "casino", "")},
			{"17:00", "a laptop", "/authorizations", "laptop", pay("1200.00", "shop", "")},
			{
				"", "the bank raises the limits until tomorrow", "/cards/7/limits", "raise", `{"limits":[
				{"rule":"month","amount":` + eur("2500") + `,"until":"2000-01-02T17:00:00Z"},
				{"rule":"single","amount":` + eur("1500") + `,"until":"2000-01-02T17:00:00Z"}]}`,
			},
			{"", "but never so high", "/cards/7/limits", "raise-2", `{"limits":[{"rule":"month","amount":` + eur("5001") + `}]}`},
			{"17:05", "the laptop", "/authorizations", "laptop-2", pay("1200.00", "shop", "")},
			{"19:00", "the card is lost", "/cards/7/freeze", "lost", `{"reason":"reported lost"}`},
			{"19:10", "somebody tries it", "/authorizations", "thief", pay("20.00", "shop", "")},
			{"20:00", "the second night", "/authorizations/hotel/captures", "night-2", `{"amount":` + eur("120.00") + `,"final":true}`},
			{"21:00", "the card is found", "/cards/7/unfreeze", "found", `{"reason":"in the coat"}`},
			{"", "a payment that nobody knows", "/authorizations/none/void", "none-void", ""},
			{"", "no key", "/authorizations", "", pay("1.00", "shop", "")},
			{"", "half a message", "/authorizations", "part", pay("1.00", "shop", "")[:10]},
			{"", "a wrong field", "/authorizations", "cart", `{"cart":"7"}`},
			{"", "half a cent", "/authorizations", "half", pay("1.005", "shop", "")},
			{"", "its figures", "/cards/7", "", ""},
			{"192:00", "the bus presents after its hold has ended", "/authorizations/bus/captures", "bus-end", `{"amount":` + eur("2.90") + `}`},
		} {
			if m.at != "" {
				at, err := time.ParseDuration(strings.Replace(m.at, ":", "h", 1) + "m")
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Until(midnight.Add(at)))
			}
			method := "POST"
			if m.path == "/cards/7" {
				method = "GET"
			}
			answer := n.send(method, m.path, m.key, m.body)
			got += fmt.Sprintf("%6s  %-42s  %s\n", m.at, m.event, answer.line())
			for _, u := range answer.Rules {
				got += fmt.Sprintf("%8s%s: %s used, %s held, %v of %v left\n", "", u.Rule, u.Used.Decimal(), u.Held.Decimal(), u.Remaining, u.Limit)
			}
			for _, h := range answer.Holds {
				got += fmt.Sprintf("%8s%s: %v held until %s\n", "", h.ID, h.Held, h.ExpiresAt.Format(time.DateTime))
			}
		}
		if err := n.cards.Verify(t.Context(), "card:7"); err != nil {
			t.Error(err)
		}
		if d := differ.Fields(strings.Split(got, "\n"), strings.Split(string(want), "\n")); d != "" {
			t.Errorf("the lines of the day are not those of testdata/day.txt:\n%s", d)
		}
	})
}

// TestDeadline lets the ledger fail during an authorization and a cancellation. The network has its
// answer at the deadline, and nothing stays held that was declined.
func TestDeadline(t *testing.T) {
	for _, tc := range []struct {
		name   string
		fault  int32
		length time.Duration
		took   time.Duration
		status int
	}{
		{"the ledger is away for a second", away, time.Second, time.Second, http.StatusOK},
		{"no decision is made", stalls, 3 * time.Second, 2 * time.Second, http.StatusPaymentRequired},
		{"the answer is lost", mute, 3 * time.Second, 2 * time.Second, http.StatusPaymentRequired},
		{"the ledger is away", away, time.Minute, 2 * time.Second, http.StatusPaymentRequired},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNetwork(t)
				defer n.end()
				synctest.Wait() // the first Prune
				n.fault.Store(tc.fault)
				time.AfterFunc(tc.length, func() { n.fault.Store(healthy) })
				got := n.send("POST", "/authorizations", "pay", pay("30.00", "food", `,"least":`+eur("10.00")))
				if got.status != tc.status || got.took < tc.took || got.took > tc.took+50*time.Millisecond {
					t.Errorf("the answer after %v is %d; want %d after %v", got.took, got.status, tc.status, tc.took)
				}
				declined := tc.status == http.StatusPaymentRequired
				if got.Canceled != declined {
					t.Errorf("%+v; want canceled %t", got, declined)
				}
				if advice := n.send("POST", "/advices", "advice", pay("5.00", "food", "")); declined && advice.status != http.StatusServiceUnavailable {
					t.Errorf("an advice without an answer is %d; want 503, because money that has moved is not declined", advice.status)
				}
				time.Sleep(tc.length + deadline + time.Second)
				synctest.Wait()
				if advice := n.send("POST", "/advices", "advice", pay("5.00", "food", "")); advice.status != http.StatusOK {
					t.Errorf("the advice that is sent again is %+v", advice)
				}
				want, again := "5.00", n.send("POST", "/authorizations", "pay", pay("30.00", "food", `,"least":`+eur("10.00")))
				if !declined {
					want = "35.00"
				}
				if again.status != tc.status || again.Canceled != declined {
					t.Errorf("the request that is sent again is %+v", again)
				}
				if card := n.send("GET", "/cards/7", "", ""); card.Rules[0].Held.Decimal() != want {
					t.Errorf("%v is held; want %s", card.Rules[0].Held, want)
				}
			})
		})
	}
}

// TestShutdown ends a service whose ledger does not come back. The service does not wait for it.
func TestShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		n.fault.Store(stalls)
		n.send("POST", "/authorizations", "pay", pay("30.00", "food", ""))
		time.Sleep(time.Minute)
		start := time.Now()
		n.end()
		if took := time.Since(start); took > deadline {
			t.Errorf("the service ended after %v; want the %v of a cancellation in flight", took, deadline)
		}
	})
}

// TestPrune leaves a hold alone. Its end is in the ledger within an hour.
func TestPrune(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		defer n.end()
		n.send("POST", "/authorizations", "pay", pay("30.00", "food", ""))
		time.Sleep(7*24*time.Hour + time.Hour)
		synctest.Wait()
		if card := n.send("GET", "/cards/7", "", ""); card.Holds == nil || len(card.Holds) > 0 {
			t.Errorf("the card has the holds %v; want an empty list", card.Holds)
		}
		for e, err := range n.cards.History(t.Context(), "card:7", nil) {
			if err != nil || e.Kind != "expire" {
				t.Errorf("the last entry is %+v, %v; want the end of the hold", e, err)
			}
			break
		}
	})
}
