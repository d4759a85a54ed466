package spendtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/ledger"
)

// Once is a load of requests that are each sent several times, by programs that are killed and over connections that are cut:
// each must have one effect. What it sends follows from its numbers alone, so that several processes can share the work.
type Once struct {
	Requests int // different ones
	Times    int // how often each is sent
}

const onceAccounts = 20

// Budgets is what the load is decided by: about half of it is declined.
func (o Once) Budgets(l ledger.Ledger) (*spend.Budgets, error) {
	each := int64(o.Requests / onceAccounts)
	return spend.New(l, spend.Budget{Name: "once", Currency: "EUR", Rules: []spend.Rule{
		spend.Lifetime("ever", money(each*50/2)), spend.Rolling("rolling", money(each*50/2), 30*days),
	}}, nil)
}

// Sends is how many there are in all.
func (o Once) Sends() int { return o.Requests * o.Times }

// request is the n-th to be sent. Equal ones are some way apart.
func (o Once) request(n int) spend.Request {
	round, i := n/o.Requests, n%o.Requests
	i = (i*7919 + round*31) % o.Requests // 7919 is prime to the number of requests
	r := rand.New(rand.NewPCG(7, uint64(i)))
	return spend.Request{
		ID: fmt.Sprint("once-", i), Account: fmt.Sprint("account:", i%onceAccounts), Amount: money(1 + r.Int64N(99)),
	}
}

// Send sends the n-th request, and returns its answer in a line.
func (o Once) Send(ctx context.Context, b *spend.Budgets, n int) (answer string, err error) {
	d, err := b.Charge(ctx, o.request(n))
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%t/%d/%d", d.Approved, d.At.UnixMicro(), len(d.Declines)), nil
}

// Check compares the ledger with the answers to all sends, by their numbers.
func (o Once) Check(t *testing.T, l ledger.Ledger, answers map[int]string) {
	t.Helper()
	b, err := o.Budgets(l)
	if err != nil {
		t.Fatal(err)
	}
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
	seen := make(map[string]bool)
	approved := 0
	for i := range onceAccounts {
		account := fmt.Sprint("account:", i)
		if err := b.Verify(ctx, account); err != nil {
			t.Error(err)
		}
		for e, err := range b.History(ctx, account, nil) {
			if err != nil {
				t.Fatal(err)
			}
			if seen[e.RequestID] {
				t.Fatalf("request %s had two effects", e.RequestID)
			}
			seen[e.RequestID] = true
			if yes := e.Kind == "spend"; fmt.Sprintf("%t/%d", yes, e.At.UnixMicro()) != byID[e.RequestID][:len(byID[e.RequestID])-2] {
				t.Fatalf("request %s was answered %s, and the ledger says %s at %d", e.RequestID, byID[e.RequestID], e.Kind, e.At.UnixMicro())
			}
			if e.Kind == "spend" {
				approved++
			}
		}
		used, err := b.Remaining(ctx, account)
		if err != nil {
			t.Fatal(err)
		}
		for _, u := range used {
			if u.Remaining.Minor < 0 {
				t.Errorf("rule %s of %s is over by %v", u.Rule, account, u.Remaining)
			}
		}
	}
	if len(seen) != o.Requests || approved == 0 || approved == o.Requests {
		t.Errorf("%d of %d requests have an effect, %d of them a spend", len(seen), o.Requests, approved)
	}
}

// Race has goroutines spend amounts between least and most from one account of 100.00 a month, so many tries together, and
// returns what was approved.
func Race(l ledger.Ledger, account string, goroutines, tries int, least, most int64) (approved int64, err error) {
	b, err := spend.New(l, spend.Budget{Name: "races", Currency: "EUR", Rules: []spend.Rule{spend.Rolling("month", money(100_00), 30*days)}}, nil)
	if err != nil {
		return 0, err
	}
	var tried, sum atomic.Int64
	errs := make(chan error, goroutines)
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(rand.Uint64(), 1))
			for tried.Add(1) <= int64(tries) {
				n := least + r.Int64N(most-least+1)
				d, err := b.Charge(ctx, spend.Request{ID: fmt.Sprintf("races-%x", r.Uint64()), Account: account, Amount: money(n)})
				switch {
				case err != nil:
					errs <- err
					return
				case d.Approved:
					sum.Add(n)
				}
			}
		})
	}
	wg.Wait()
	select {
	case err = <-errs:
	default:
	}
	return sum.Load(), err
}

// Races has 64 goroutines spend 1.00 at the same time against 100.00: exactly 100 are approved. Then it has them spend amounts
// by chance, after which not a minor unit too much is gone, and what is left fits exactly. ledgers share one place.
func Races(t *testing.T, ledgers []ledger.Ledger) {
	all := func(account string, least, most int64) (sum int64) {
		var total atomic.Int64
		var wg sync.WaitGroup
		for _, l := range ledgers {
			wg.Go(func() {
				n, err := Race(l, account, 64/len(ledgers), 400/len(ledgers), least, most)
				if err != nil {
					t.Error(err)
				}
				total.Add(n)
			})
		}
		wg.Wait()
		return total.Load()
	}
	b, err := spend.New(ledgers[0], spend.Budget{Name: "races", Currency: "EUR", Rules: []spend.Rule{spend.Rolling("month", money(100_00), 30*days)}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if sum := all(fmt.Sprint("ones:", i), 1_00, 1_00); sum != 100_00 {
			t.Errorf("%d spends of 1.00 were approved; want exactly 100", sum/1_00)
		}
		account := fmt.Sprint("random:", i)
		sum := all(account, 1, 90)
		if sum > 100_00 || sum < 90_00 {
			t.Errorf("%d were spent of %d", sum, 100_00)
		}
		left := 100_00 - sum
		if left == 0 {
			continue
		}
		for n, want := range map[int64]bool{left + 1: false, left: true} {
			d, err := b.AbleToAccept(ctx, spend.Request{Account: account, Amount: money(n)})
			if err != nil || d.Approved != want {
				t.Errorf("%d of %d that are left: approved is %t, %v", n, left, d.Approved, err)
			}
		}
		if d, err := b.Charge(ctx, spend.Request{ID: fmt.Sprint("fit-", account, sum), Account: account, Amount: money(left)}); err != nil || !d.Approved {
			t.Errorf("what is left exactly: %+v, %v", d, err)
		}
	}
}
