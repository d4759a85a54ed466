package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/spend/memledger"
	"github.com/brimgo/brim/store"
)

// faulty is a ledger that fails at one of its decisions.
type faulty struct {
	ledger.Ledger
	n       int   // the number of the decision, from 1
	applied bool  // the decision is made all the same
	err     error // of the decision
	dead    bool  // and of all later ones: the process has died

	mu   sync.Mutex // a hold whose authorization failed is cancelled in the background
	made int
}

func (f *faulty) Decide(ctx context.Context, job *ledger.Job) error {
	if len(job.Requests) == 0 { // the rules, with which the program starts
		return f.Ledger.Decide(ctx, job)
	}
	f.mu.Lock()
	f.made++
	made := f.made
	f.mu.Unlock()
	fails := made == f.n || f.dead && made > f.n
	if fails && !(f.applied && made == f.n) {
		return f.err
	}
	err := f.Ledger.Decide(ctx, job)
	if fails && err == nil {
		return f.err
	}
	return err
}

var faults = []struct {
	err           error
	applied, dead bool
}{
	{err: fmt.Errorf("test: %w", store.ErrUnavailable)},
	{err: fmt.Errorf("test: %w", store.ErrUnknownOutcome)},
	{err: fmt.Errorf("test: %w", store.ErrUnknownOutcome), applied: true},
	{err: fmt.Errorf("test: %w", store.ErrClosed), dead: true},
	{err: fmt.Errorf("test: %w", store.ErrClosed), dead: true, applied: true},
}

func (f *faulty) String() string {
	return fmt.Sprintf("decision %d fails: %v, applied %v, dead %v", f.n, f.err, f.applied, f.dead)
}

var errBroken = errors.New("broken")

// TestAgentFaults makes each decision of a task fail, and lets each step break off. The task is
// then run again. Whatever was done is paid, nothing is bought twice, and nothing stays held.
func TestAgentFaults(t *testing.T) {
	const decisions = 9 // five steps, of which one is declined
	for _, fault := range faults {
		for n := range decisions + 1 {
			for broken := -1; broken < len(steps); broken++ {
				for _, how := range []string{"error", "panic", "cancel", "slow"} {
					if broken < 0 && how != "error" {
						continue
					}
					f := &faulty{err: fault.err, applied: fault.applied, dead: fault.dead, n: n}
					name := fmt.Sprintf("%v, step %d ends with %s", f, broken, how)
					synctest.Test(t, func(t *testing.T) { agentFaults(t, name, f, broken, how) })
				}
			}
		}
	}
}

func agentFaults(t *testing.T, name string, f *faulty, broken int, how string) {
	f.Ledger = memledger.New(nil)
	times, delivered := make(map[string]int), int64(0)
	run := func(l ledger.Ledger, broken int) (b *spend.Budgets, err error) {
		b, err = spend.New(t.Context(), l, spend.Budget{
			Name: "agents", Currency: unit, Rules: []spend.Rule{spend.PerTransaction("step", usd(1_00)), spend.Lifetime("project", usd(100_00))},
		}, &spend.Options{HoldTTL: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		defer func() {
			if p := recover(); p != nil {
				err = errors.Join(err, fmt.Errorf("%v", p))
			}
		}()
		ends := func(s step) error {
			if broken < 0 || s.name != steps[broken].name {
				return nil
			}
			switch how {
			case "panic":
				panic(errBroken)
			case "cancel":
				cancel()
			case "slow":
				time.Sleep(2 * time.Minute) // the hold of a purchase expires
			default:
				return errBroken
			}
			return nil
		}
		a := newAgent(b, "task", io.Discard)
		a.do = func(ctx context.Context, s step) (int64, error) {
			times[s.name]++
			delivered += usd(s.costs).Minor * 1_000_000
			if err := ends(s); err != nil {
				return 0, err
			}
			return pretend(ctx, s)
		}
		for i, s := range steps {
			a.calls = calls(b, base(func(r *http.Request) (*http.Response, error) {
				delivered += 60*300 + 800*1500 // the model bills the call, however it ends
				if err := ends(s); err != nil {
					return nil, err
				}
				return pretended{}.RoundTrip(r)
			}))
			if err := a.step(ctx, i, s); err != nil {
				return b, err
			}
		}
		return b, nil
	}
	_, err := run(f, broken)
	b, again := run(f.Ledger, -1)
	if again != nil {
		t.Errorf("%s: the task run again: %v", name, again)
	}
	time.Sleep(time.Minute)
	for step, n := range times {
		if n > 1 {
			t.Errorf("%s: %s was done %d times", name, step, n)
		}
	}
	list, err2 := b.Remaining(t.Context(), account)
	if err := errors.Join(err2, b.Verify(t.Context(), account)); err != nil {
		t.Fatal(err)
	}
	used := list[len(list)-1].Used.Minor
	holds := openHolds(t, b)
	if holds > 0 || used < delivered || err == nil && broken < 0 && !f.dead && used != delivered {
		t.Errorf("%s: %d holds are open, %d is paid for %d; the first run: %v", name, holds, used, delivered, err)
	}
}

type base func(r *http.Request) (*http.Response, error)

func (f base) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// openHolds returns the number of the account's open holds.
func openHolds(t *testing.T, b *spend.Budgets) (n int) {
	t.Helper()
	for _, err := range b.Holds(t.Context(), account) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n
}
