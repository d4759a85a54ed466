package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
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
	made    int
}

func (f *faulty) Decide(ctx context.Context, job *ledger.Job) error {
	if len(job.Requests) == 0 { // the rules, with which the program starts
		return f.Ledger.Decide(ctx, job)
	}
	f.made++
	fails := f.made == f.n || f.dead && f.made > f.n
	if fails && !(f.applied && f.made == f.n) {
		return f.err
	}
	err := f.Ledger.Decide(ctx, job)
	if fails && err == nil {
		return f.err
	}
	return err
}

var faults = []faulty{
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
// then run again. Whatever was done is paid, nothing is done twice, and nothing stays held.
func TestAgentFaults(t *testing.T) {
	const decisions = 9 // five steps, of which one is declined
	for _, f := range faults {
		for n := range decisions + 1 {
			for broken := -1; broken < len(steps); broken++ {
				for _, how := range []string{"error", "panic", "cancel", "slow"} {
					if broken < 0 && how != "error" {
						continue
					}
					f.n = n
					name := fmt.Sprintf("%v, step %d ends with %s", &f, broken, how)
					synctest.Test(t, func(t *testing.T) { agentFaults(t, name, f, broken, how) })
				}
			}
		}
	}
}

func agentFaults(t *testing.T, name string, f faulty, broken int, how string) {
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
		a := &agent{budget: b, task: "task", out: io.Discard, do: func(ctx context.Context, s step) (int64, error) {
			times[s.name]++
			delivered += s.costs
			if broken >= 0 && s.name == steps[broken].name {
				switch how {
				case "panic":
					panic(errBroken)
				case "cancel":
					cancel()
				case "slow":
					time.Sleep(2 * time.Minute) // the hold expires
				default:
					return 0, errBroken
				}
			}
			return pretend(ctx, s)
		}}
		for i, s := range steps {
			if err := a.take(ctx, i, s); err != nil {
				return b, err
			}
		}
		return b, nil
	}
	_, err := run(&f, broken)
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
	if least := delivered * 1_000_000; holds > 0 || used < least || err == nil && broken < 0 && used != least {
		t.Errorf("%s: %d holds are open, %d is paid for %d; the first run: %v", name, holds, used, least, err)
	}
}

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

// TestStreamFaults makes each decision of the streamed calls fail. The tokens that have come are
// paid, and nothing stays held after its time.
func TestStreamFaults(t *testing.T) {
	for _, f := range faults {
		for n := range 16 {
			f.n = n
			synctest.Test(t, func(t *testing.T) {
				f := f
				f.Ledger = memledger.New(nil)
				b, err := spend.New(t.Context(), &f, spend.Budget{
					Name: "agents", Currency: unit, Rules: []spend.Rule{spend.Rolling("hour", usd(45), time.Hour)},
				}, nil)
				if err != nil {
					t.Fatal(err)
				}
				var delivered int64 // the cost of the tokens that came
				for i, c := range calls {
					var out strings.Builder
					parts := 0
					s := &streams{budget: b, out: &out, sleep: func(d time.Duration) { time.Sleep(d); parts++ }}
					if s.run(t.Context(), fmt.Sprint(i), c) != nil && f.dead {
						break // nobody is left to pay
					}
					var in, most, came int64
					line := strings.TrimPrefix(out.String(), c.name)
					if _, err := fmt.Sscanf(line, ": %f USD is held for %d tokens and up to %d more", new(float64), &in, &most); err != nil {
						continue // declined, or not begun
					}
					for _, part := range c.chunks[:parts] {
						came += part.tokens
					}
					delivered += tokens(in, min(came, most)).Minor
				}
				time.Sleep(holdFor)
				b = b.With(f.Ledger)
				list, err := b.Remaining(t.Context(), account)
				if err := errors.Join(err, b.Verify(t.Context(), account)); err != nil {
					t.Fatal(err)
				}
				holds := openHolds(t, b)
				if used := list[0].Used.Minor; holds > 0 || used < delivered {
					t.Errorf("%v: %d holds are open, %d is paid for %d", &f, holds, used, delivered)
				}
			})
		}
	}
}
