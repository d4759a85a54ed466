package guard_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/guard"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/spend/memledger"
	"github.com/brimgo/brim/store"
)

// flaky is a ledger that fails in some of its decisions.
type flaky struct {
	ledger.Ledger
	from, to int  // the decisions that fail, from 1; to is 0 if the process has died
	applied  bool // the first of them is made all the same
	err      error

	mu   sync.Mutex
	made int
}

// fail has the next decisions and questions fail; 0: none.
func (f *flaky) fail(decisions int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.from, f.to, f.err = f.made+1, f.made+decisions, err
	if decisions == 0 {
		f.from = 1 << 30
	}
}

func (f *flaky) Decide(ctx context.Context, job *ledger.Job) error {
	return f.do(func() error { return f.Ledger.Decide(ctx, job) })
}

func (f *flaky) View(ctx context.Context, job *ledger.Job) error {
	return f.do(func() error { return f.Ledger.View(ctx, job) })
}

func (f *flaky) do(job func() error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.made++
	if f.made < f.from || f.to > 0 && f.made > f.to {
		return job()
	}
	if f.applied && f.made == f.from {
		if err := job(); err != nil {
			return err
		}
	}
	return fmt.Errorf("test: %w", f.err)
}

const ttl = 30 * time.Second

// dollars returns an amount of cents.
func dollars(cents int64) spend.Money { return spend.Money{Minor: cents, Currency: "USD"} }

func budgets(t *testing.T, l ledger.Ledger) *spend.Budgets {
	t.Helper()
	rules := []spend.Rule{spend.Rolling("day", dollars(100_00), 24*time.Hour)}
	b, err := spend.New(t.Context(), l, spend.Budget{Name: "calls", Currency: "USD", Rules: rules},
		&spend.Options{Budgets: []spend.Budget{{Name: "teams", Currency: "USD", Rules: rules}}})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// call asks for an amount for the account "a", and for that of its team.
func call(id string, cents int64, fate spend.Expiry) spend.UpToRequest {
	return spend.UpToRequest{Request: spend.Request{
		ID: id, Account: "a", Amount: dollars(cents), TTL: ttl, OnExpiry: fate, Also: []spend.Account{{Budget: "teams", Name: "red"}},
	}}
}

// paid returns the used cents, and the held ones, which are the same in the account and in that of
// its team.
func paid(t *testing.T, b *spend.Budgets) (used, held int64) {
	t.Helper()
	teams, err := b.ForBudget(t.Context(), "teams")
	if err != nil {
		t.Fatal(err)
	}
	list, err := b.Remaining(t.Context(), "a")
	team, err2 := teams.Remaining(t.Context(), "red")
	if err := errors.Join(err, err2, b.Verify(t.Context(), "a"), teams.Verify(t.Context(), "red")); err != nil {
		t.Fatal(err)
	}
	if list[0].Used != team[0].Used || list[0].Held != team[0].Held {
		t.Errorf("the team has used %v and holds %v, and the account %v and %v", team[0].Used, team[0].Held, list[0].Used, list[0].Held)
	}
	return list[0].Used.Minor, list[0].Held.Minor
}

// TestFaults lets each decision of a guarded work fail, in each way, and the work end in each
// way. All that is delivered is paid, nothing is paid twice, and nothing is held when the TTL has
// passed.
func TestFaults(t *testing.T) {
	const parts, each = 5, 7
	runs := 0
	for from := range 14 { // 0: none fails
		for i, f := range []*flaky{
			{to: from, err: store.ErrUnavailable},
			{to: from + 3, err: store.ErrUnavailable},
			{to: from, err: store.ErrUnknownOutcome},
			{to: from + 3, err: store.ErrUnknownOutcome, applied: true},
			{to: from + 9, err: store.ErrUnavailable},
			{to: from + 9, err: store.ErrUnknownOutcome, applied: true},
			{err: store.ErrClosed},
			{err: store.ErrClosed, applied: true},
		} {
			if f.from = from; from == 0 {
				f.from = 1 << 30
			}
			for _, how := range []string{"return", "error", "panic", "disconnect", "long"} {
				for broken := range parts + 1 {
					fate, held := spend.ReleaseOnExpiry, int64(50)
					if (i+broken)%2 == 1 || f.to == from+9 {
						fate, held = spend.SpendOnExpiry, 20+int64(from)*2 // less than the work costs, or more
					}
					runs++
					name := fmt.Sprintf("%d held with fate %v; decisions %d to %d fail with %v, applied %v; part %d ends with %s",
						held, fate, f.from, f.to, f.err, f.applied, broken, how)
					synctest.Test(t, func(t *testing.T) {
						f := &flaky{Ledger: memledger.New(nil), from: f.from, to: f.to, applied: f.applied, err: f.err}
						delivered, asked := int64(0), int64(0)
						ctx, leave := context.WithCancel(t.Context())
						defer leave()
						began := false
						work := func(ctx context.Context, m *guard.Meter) error {
							began = true
							for part := range parts {
								time.Sleep(4 * time.Second)
								if part == broken {
									switch how {
									case "error":
										return errors.New("broken")
									case "panic":
										panic("broken")
									case "disconnect":
										leave()
									case "long":
										time.Sleep(3 * ttl)
									}
								}
								if ctx.Err() != nil {
									return context.Cause(ctx)
								}
								asked += each
								if err := m.Use(dollars(each)); err != nil {
									return err
								}
								delivered += each
							}
							return nil
						}
						var err error
						func() {
							defer func() {
								if p := recover(); p != nil {
									err = errors.Join(err, fmt.Errorf("%v", p))
								}
							}()
							_, err = guard.Run(ctx, budgets(t, f.Ledger).With(f), call("call", held, fate), work)
						}()
						if _, left := paid(t, budgets(t, f.Ledger)); left > 0 && began && f.err != store.ErrClosed {
							t.Errorf("%s: %d are held after the work", name, left)
						}
						time.Sleep(ttl)
						used, left := paid(t, budgets(t, f.Ledger))
						exact, most := f.err != store.ErrClosed || from == 0, asked // nobody captures after a kill
						if fate == spend.SpendOnExpiry && (!exact || !began) {      // nor after an answer to Open that was lost
							exact, most = false, max(asked, held)
						}
						if left != 0 || used < delivered || used > most || exact && used != asked {
							t.Errorf("%s: %d delivered, %d asked, %d paid, %d held: %v", name, delivered, asked, used, left, err)
						}
						if from == 0 && broken == parts && (err != nil || used != parts*each) {
							t.Errorf("%s: %d paid, %v", name, used, err)
						}
					})
				}
			}
		}
	}
	t.Logf("%d runs", runs)
}

// TestRun: work does not run if its request is declined or was decided before, as much as fits
// may be enough, and the hold of work that runs for long is kept.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := budgets(t, memledger.New(nil))
		request := func(id string, most, least int64) spend.UpToRequest {
			r := call(id, most, 0)
			if least > 0 {
				r.Least = dollars(least)
			}
			return r
		}
		ran := 0
		work := func(uses ...int64) func(context.Context, *guard.Meter) error {
			return func(ctx context.Context, m *guard.Meter) error {
				ran++
				for _, n := range uses {
					time.Sleep(2 * ttl)
					if _, held := paid(t, b); held == 0 || ctx.Err() != nil {
						t.Errorf("%d cents are held while the work runs; %v", held, context.Cause(ctx))
					}
					if err := m.Use(spend.Money{Minor: n*10 + 1, Currency: "USD:3"}); err == nil {
						t.Error("an amount that is finer than the budget")
					}
					if err := m.Use(dollars(n)); err != nil {
						t.Error(err)
					}
				}
				return nil
			}
		}
		for _, c := range []struct {
			r        spend.UpToRequest
			uses     []int64
			approved bool
			runs     int
			used     int64 // in all
		}{
			{request("a", 60_00, 0), []int64{10_00, 5_00}, true, 1, 15_00},
			{request("a", 60_00, 0), nil, true, 1, 15_00},          // replayed
			{request("b", 100_00, 0), nil, false, 1, 15_00},        // declined
			{request("c", 100_00, 80_00), nil, true, 2, 15_00},     // nothing is used
			{request("d", 5_00, 0), []int64{7_00}, true, 3, 22_00}, // more than is held
		} {
			d, err := guard.Run(t.Context(), b, c.r, work(c.uses...))
			if used, held := paid(t, b); err != nil || d.Approved != c.approved || ran != c.runs || used != c.used || held != 0 {
				t.Errorf("%s: %v, %v; ran %d times, %d used, %d held; want %+v", c.r.ID, d.Label(), err, ran, used, held, c)
			}
		}
		for _, r := range []spend.UpToRequest{request(strings.Repeat("i", 120), 1, 0), request("e", -1, 0), request("f", 1, 2)} {
			if _, err := guard.Run(t.Context(), b, r, work()); err == nil || ran != 3 {
				t.Errorf("%.8q: %v, ran %d times", r.ID, err, ran)
			}
		}
		_, err := guard.Run(t.Context(), b, request("g", 1, 0), func(_ context.Context, m *guard.Meter) error { return m.Use(dollars(-1)) })
		if !errors.Is(err, spend.ErrAmount) {
			t.Errorf("a negative amount: %v", err)
		}
	})
}
