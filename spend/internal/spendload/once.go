package spendload

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/brimgo/brim/internal/seed"
	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/ledger"
)

// Once is a load of requests that programs send several times, while they are
// killed and while their connections are cut. Each request must have exactly
// one effect. The number of a send alone determines its request, so several
// processes can share the work.
type Once struct {
	Requests int // number of different requests
	Times    int // how often each request is sent
}

// NewOnce returns the load of a test: 800 requests, or 10,000 with BRIM_TORTURE=1, each sent
// three times.
func NewOnce() Once { return Once{Requests: seed.Attempts(800, 10_000), Times: 3} }

const onceAccounts = 20

// Budgets returns the budgets of the load. Their limits decline about half of
// the requests.
func (o Once) Budgets(ctx context.Context, l ledger.Ledger) (*spend.Budgets, error) {
	each := int64(o.Requests / onceAccounts)
	return spend.New(ctx, l, spend.Budget{Name: "once", Currency: "EUR", Rules: []spend.Rule{
		spend.Lifetime("ever", euros(each*50/2)),
		spend.Rolling("rolling", euros(each*50/2), 30*24*time.Hour),
	}}, nil)
}

// Sends returns the number of sends in all.
func (o Once) Sends() int { return o.Requests * o.Times }

// request returns the request of send n. Sends of one request lie some way
// apart.
func (o Once) request(n int) spend.Request {
	round, i := n/o.Requests, n%o.Requests
	i = (i*7919 + round*31) % o.Requests // 7919 is prime to the number of requests
	r := rand.New(rand.NewPCG(7, uint64(i)))
	return spend.Request{
		ID:      fmt.Sprint("once-", i),
		Account: fmt.Sprint("account:", i%onceAccounts),
		Amount:  euros(1 + r.Int64N(99)),
	}
}

// Send sends the request of send n and returns its answer as one line.
func (o Once) Send(ctx context.Context, b *spend.Budgets, n int) (answer string, err error) {
	d, err := b.Charge(ctx, o.request(n))
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%t/%d/%d", d.Approved, d.At.UnixMicro(), len(d.Declines)), nil
}

// Check compares the ledger with answers, which holds the answer to every
// send by its number.
func (o Once) Check(t *testing.T, l ledger.Ledger, answers map[int]string) {
	t.Helper()
	b, err := o.Budgets(t.Context(), l)
	if err != nil {
		t.Fatal(err)
	}
	byID := o.byID(t, answers)
	seen := make(map[string]bool)
	approved := 0
	for i := range onceAccounts {
		account := fmt.Sprint("account:", i)
		if err := b.Verify(context.Background(), account); err != nil {
			t.Error(err)
		}
		spent := int64(0)
		for e, err := range b.History(context.Background(), account, nil) {
			if err != nil {
				t.Fatal(err)
			}
			if seen[e.RequestID] {
				t.Fatalf("request %s had two effects", e.RequestID)
			}
			seen[e.RequestID] = true
			answer := byID[e.RequestID]
			if yes := e.Kind == "spend"; fmt.Sprintf("%t/%d", yes, e.At.UnixMicro()) != answer[:len(answer)-2] {
				t.Fatalf("request %s was answered %s; the ledger holds a %s at %d", e.RequestID, answer, e.Kind, e.At.UnixMicro())
			}
			if e.Kind == "spend" {
				approved++
				spent += e.Used.Minor
			}
		}
		used, err := b.Remaining(context.Background(), account)
		if err != nil {
			t.Fatal(err)
		}
		for _, u := range used {
			if left := u.Limit.Minor - spent; u.Remaining.Minor != left || left < 0 {
				t.Errorf("rule %s of %s has %v left of %v; want %d cents", u.Rule, account, u.Remaining, u.Limit, left)
			}
		}
	}
	if len(seen) != o.Requests || approved == 0 || approved == o.Requests {
		t.Errorf("%d of %d requests had an effect, and %d were approved; want all, and some approved", len(seen), o.Requests, approved)
	}
}

// byID returns the answer to each request, after it has checked that all
// sends of a request got the same answer.
func (o Once) byID(t *testing.T, answers map[int]string) map[string]string {
	t.Helper()
	byID := make(map[string]string)
	for n := range o.Sends() {
		id := o.request(n).ID
		switch first, known := byID[id]; {
		case answers[n] == "":
			t.Fatalf("send %d has no answer", n)
		case known && first != answers[n]:
			t.Fatalf("request %s was answered %s and %s", id, first, answers[n])
		}
		byID[id] = answers[n]
	}
	return byID
}
