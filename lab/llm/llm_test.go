package llm

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/brimgo/brim/llmlimit"
	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/spend/memledger"
	"github.com/brimgo/brim/store"
)

// flaky is a ledger of which a share of the decisions fail.
type flaky struct {
	ledger.Ledger
	mu    sync.Mutex
	rand  *rand.Rand
	share float64
	fails int
}

func (f *flaky) Decide(ctx context.Context, job *ledger.Job) error {
	if len(job.Requests) == 0 {
		return f.Ledger.Decide(ctx, job)
	}
	f.mu.Lock()
	how := 3
	if f.rand.Float64() < f.share {
		how = f.rand.IntN(3)
		f.fails++
	}
	f.mu.Unlock()
	switch how {
	case 0:
		return fmt.Errorf("lab: %w", store.ErrUnavailable)
	case 1:
		return fmt.Errorf("lab: %w", store.ErrUnknownOutcome)
	case 2:
		if err := f.Ledger.Decide(ctx, job); err != nil {
			return err
		}
		return fmt.Errorf("lab: %w", store.ErrUnknownOutcome)
	}
	return f.Ledger.Decide(ctx, job)
}

const unit = "USD:8"

func usd(amount string) spend.Money {
	m, err := spend.ParseMoney(amount, unit)
	if err != nil {
		panic(err)
	}
	return m
}

// levels are the accounts of a call.
var levels = []spend.Account{{Budget: "keys", Name: "key:7"}, {Budget: "teams", Name: "red"}, {Budget: "orgs", Name: "acme"}}

// program is a program that calls the fakes through package llmlimit.
type program struct {
	t       *testing.T
	fake    *fake
	ledger  *flaky
	sure    *spend.Budgets // over a ledger that does not fail
	clients *clients

	mu   sync.Mutex
	done []llmlimit.Call
}

func newProgram(t *testing.T, f *fake, limit string, share float64) *program {
	t.Helper()
	p := &program{t: t, fake: f, ledger: &flaky{Ledger: memledger.New(nil), share: share, rand: rand.New(rand.NewPCG(1, 1))}}
	var list []spend.Budget
	for _, a := range levels {
		list = append(list, spend.Budget{Name: a.Budget, Currency: unit, Rules: []spend.Rule{spend.Calendar("month", usd(limit), spend.Month, time.UTC)}})
	}
	budgets, err := spend.New(t.Context(), p.ledger, list[0], &spend.Options{Budgets: list[1:]})
	if err != nil {
		t.Fatal(err)
	}
	p.sure = budgets.With(p.ledger.Ledger)
	price := llmlimit.Price{Input: usd("3"), CacheRead: usd("0.3"), CacheWrite: usd("3.75"), CacheWriteLong: usd("6"), Output: usd("15")}
	calls := llmlimit.New(budgets, func(string) (llmlimit.Model, bool) {
		return llmlimit.Model{Price: price, Window: 200_000, MaxOutput: 1000}, true
	}, &llmlimit.Options{TTL: 5 * time.Second, Done: func(c llmlimit.Call) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.done = append(p.done, c)
	}})
	p.clients = newClients(f.start(t), "secret", calls.Client())
	return p
}

func (p *program) context(ctx context.Context) context.Context {
	return llmlimit.For(ctx, levels[0].Name, levels[1:]...)
}

// paid returns the used and held money, which are the same on all levels.
func (p *program) paid() (used, held int64) {
	p.t.Helper()
	for i, a := range levels {
		b, err := p.sure.ForBudget(context.Background(), a.Budget)
		if err != nil {
			p.t.Fatal(err)
		}
		list, err := b.Remaining(context.Background(), a.Name)
		if err := errors.Join(err, b.Verify(context.Background(), a.Name)); err != nil {
			p.t.Fatal(err)
		}
		if u := list[0]; i == 0 {
			used, held = u.Used.Minor, u.Held.Minor
		} else if u.Used.Minor != used || u.Held.Minor != held {
			p.t.Errorf("%s has used %v and holds %v; the level before %d and %d", a.Budget, u.Used, u.Held, used, held)
		}
	}
	return used, held
}

// TestSDKs makes a call in each way with each fault, and lets the SDK retry as it likes. The charge
// is the fake's bill, or stands above it where the provider tells nothing.
func TestSDKs(t *testing.T) {
	var exact, above atomic.Int64
	t.Run("calls", func(t *testing.T) { // which returns when all of them have ended
		testSDKs(t, &exact, &above)
	})
	t.Logf("%d exact, %d above because the provider tells nothing, 0 below", exact.Load(), above.Load())
}

func testSDKs(t *testing.T, exact, above *atomic.Int64) {
	for how := none; how < faults; how++ {
		for _, way := range wayNames {
			t.Run(fmt.Sprint(way, ", ", how), func(t *testing.T) {
				t.Parallel() // the SDKs sleep
				f := &fake{next: func(int64) fault { return how }}
				if how == overloaded || how == limited { // the retries succeed
					f.next = func(n int64) fault { return map[bool]fault{true: how}[n <= 2] }
				}
				p := newProgram(t, f, "50", 0)
				text, err := ways[way](p.clients, p.context(t.Context()), stay)
				if billed := how == none || how == overloaded || how == limited || how == dearer; billed && (err != nil || text == "") {
					t.Errorf("%q, %v", text, err)
				}
				used, held := p.paid()
				bill := f.billed.Load()
				switch {
				case held != 0 || used < bill || used != bill && !how.above():
					t.Errorf("%d are charged, and %d held, for a bill of %d in %d calls; %v", used, held, bill, f.calls.Load(), err)
				case used == bill:
					exact.Add(1)
				default:
					above.Add(1)
				}
				t.Logf("%d calls, %d billed, %d charged", f.calls.Load(), bill, used)
			})
		}
	}
}

// TestLeaves: a client leaves a stream after an event.
func TestLeaves(t *testing.T) {
	for _, way := range []string{"chat stream", "responses stream", "messages stream"} {
		for _, how := range []string{"cancel", "close"} {
			for event := range 3 {
				p := newProgram(t, &fake{slow: time.Millisecond}, "5", 0)
				ctx, cancel := context.WithCancel(p.context(t.Context()))
				_, err := ways[way](p.clients, ctx, func(n int) bool {
					if n == event && how == "cancel" {
						cancel()
					}
					return n == event && how == "close"
				})
				cancel()
				if used, held := p.paid(); used < p.fake.billed.Load() || held != 0 || how == "cancel" && err == nil {
					t.Errorf("%s, %s after event %d: %d are charged and %d held for a bill of %d; %v", way, how, event, used, held, p.fake.billed.Load(), err)
				}
			}
		}
	}
}

// TestRefused: the SDKs do not send a call again that the budget will not pay for long.
func TestRefused(t *testing.T) {
	for _, limit := range []string{"0.001", "0.006"} { // never, and next month after the first call
		for _, way := range wayNames {
			p := newProgram(t, &fake{}, limit, 0)
			ctx, cancel := context.WithTimeout(p.context(t.Context()), 30*time.Second)
			var err error
			for n := 0; n < 100 && err == nil; n++ {
				_, err = ways[way](p.clients, ctx, stay)
			}
			calls := p.fake.calls.Load()
			if err == nil || ctx.Err() != nil || (calls > 0) != (limit == "0.006") {
				t.Errorf("%s of %s USD: %d calls, %v, %v", way, limit, calls, err, ctx.Err())
			}
			cancel()
			if used, held := p.paid(); used != p.fake.billed.Load() || held != 0 {
				t.Errorf("%s of %s USD: %d are charged and %d held for a bill of %d", way, limit, used, held, p.fake.billed.Load())
			}
		}
	}
}

// storm has 64 clients call at once, with faults of the provider and of the clients, and watches
// that the budget never shows room for a call that was billed. It returns the answers.
func storm(t *testing.T, f *fake, calls int, do func(ctx context.Context, client, n int, stop stop, way string) error, shown func() int64) (answered, failed int) {
	t.Helper()
	var seed sync.Mutex
	random := rand.New(rand.NewPCG(54, 54))
	roll := func(n int) int {
		seed.Lock()
		defer seed.Unlock()
		return random.IntN(n)
	}
	f.next = func(int64) fault {
		if roll(4) > 0 {
			return none
		}
		return fault(roll(int(dearer))) // a call above its hold may be billed before it is charged
	}
	over, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		for {
			billed := f.billed.Load() // before the question
			if s := shown(); s < billed {
				t.Errorf("%d are used and held, and %d were billed before", s, billed)
				return
			}
			select {
			case <-over:
				return
			case <-time.After(time.Millisecond):
			}
		}
	}()
	var all sync.WaitGroup
	var mu sync.Mutex
	for client := range 64 {
		all.Go(func() {
			for n := range calls {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				event, how := roll(8), roll(6)
				err := do(ctx, client, n, func(e int) bool {
					if e == event && how == 0 {
						cancel()
					}
					return e == event && how == 1
				}, wayNames[(client+n)%len(wayNames)])
				cancel()
				mu.Lock()
				if err == nil {
					answered++
				} else {
					failed++
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	close(over)
	<-watched
	return answered, failed
}

// Test64: 64 clients on three levels, with faults of the provider, of the clients and of the
// ledger.
func Test64(t *testing.T) {
	for _, share := range []float64{0, 0.05} {
		p := newProgram(t, &fake{}, "0.6", share)
		answered, failed := storm(t, p.fake, 12, func(ctx context.Context, _, _ int, stop stop, way string) error {
			_, err := ways[way](p.clients, p.context(ctx), stop)
			return err
		}, func() int64 { used, held := p.first(); return used + held })
		p.settled()
		used, held := p.paid()
		p.mu.Lock()
		known, charged, exact := int64(0), int64(0), 0
		for _, c := range p.done {
			charged += c.Charged.Minor
			if c.Known {
				known += c.Charged.Minor
				exact++
			}
			if c.Err != nil {
				t.Error(c.Err)
			}
		}
		bill := p.fake.billed.Load()
		if used != charged || used < bill || known > bill || used > usd("0.6").Minor || held != 0 {
			t.Errorf("%d are used and %d held on each level, %d charged, %d of them known, for a bill of %d", used, held, charged, known, bill)
		}
		t.Logf("%d of %d decisions failed; %d answered, %d failed; %d calls at the provider, %d charges, of which %d exact; on each of 3 levels %d used for a bill of %d, limit %d",
			p.ledger.fails, int(share*100), answered, failed, p.fake.calls.Load(), len(p.done), exact, used, bill, usd("0.6").Minor)
		p.mu.Unlock()
	}
}

// first returns the figures of the first level.
func (p *program) first() (used, held int64) {
	list, err := p.sure.Remaining(context.Background(), levels[0].Name)
	if err != nil {
		p.t.Error(err)
		return 0, 0
	}
	return list[0].Used.Minor, list[0].Held.Minor
}

// settled waits until nothing is held: a call whose answer the ledger has lost is canceled beside
// its refusal.
func (p *program) settled() {
	for until := time.Now().Add(20 * time.Second); time.Now().Before(until); time.Sleep(time.Millisecond) {
		if _, held := p.first(); held == 0 {
			return
		}
	}
}

// TestExact: without calls whose bill nobody can know, the three levels show exactly the bill.
func TestExact(t *testing.T) {
	p := newProgram(t, &fake{}, "100", 0.05)
	var all sync.WaitGroup
	for client := range 64 {
		all.Go(func() {
			for n := range 6 {
				_, _ = ways[wayNames[(client+n)%len(wayNames)]](p.clients, p.context(t.Context()), stay)
			}
		})
	}
	all.Wait()
	p.settled()
	used, held := p.paid()
	if bill := p.fake.billed.Load(); used != bill || held != 0 {
		t.Errorf("%d are used and %d held for a bill of %d", used, held, bill)
	}
	t.Logf("%d calls, %d of the ledger's decisions failed: %d used on each of 3 levels, and billed", p.fake.calls.Load(), p.ledger.fails, used)
}
