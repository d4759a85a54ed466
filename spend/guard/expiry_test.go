package guard_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/guard"
	"github.com/brimgo/brim/spend/memledger"
	"github.com/brimgo/brim/store"
)

// TestExpiry lets the hold expire while the ledger is away and the work runs. All accounts show the
// cost of the work, whether that is less than was held, or more.
func TestExpiry(t *testing.T) {
	for _, c := range []struct {
		why           string
		fate          spend.Expiry
		before, after []int64 // cents used, before the expiry and after it
		during        int64   // used by the accounts while the work runs
		used, over    int64
		spends        int64 // as Count rules count them
	}{
		{"the expiry spends too much, and the rest is refunded", spend.SpendOnExpiry, nil, []int64{12}, 50, 12, 0, 1},
		{"nothing is used", spend.SpendOnExpiry, nil, nil, 50, 0, 0, 1},
		{"parts before the expiry count once", spend.SpendOnExpiry, []int64{5, 4}, []int64{12, 3}, 50, 24, 0, 1},
		{"all is used", spend.SpendOnExpiry, []int64{20}, []int64{30}, 50, 50, 0, 1},
		{"more than was held is recorded", spend.SpendOnExpiry, nil, []int64{75}, 75, 75, 25, 2},
		{"each part above the hold is recorded before it is delivered", spend.SpendOnExpiry, []int64{10}, []int64{30, 20, 7}, 67, 67, 17, 3},
		{"the hold was used up before", spend.SpendOnExpiry, []int64{60}, []int64{7}, 67, 67, 17, 1},
		{"a release gives the money back until it is captured", spend.ReleaseOnExpiry, nil, []int64{12}, 12, 12, 0, 1},
		{"a late capture takes more than was held", spend.ReleaseOnExpiry, []int64{10}, []int64{75}, 85, 85, 35, 1},
		{"nothing is used, and nothing was spent", spend.ReleaseOnExpiry, nil, nil, 0, 0, 0, 0},
	} {
		t.Run(c.why, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &flaky{Ledger: memledger.New(nil), from: 1 << 30}
				b, err := spend.New(t.Context(), f, spend.Budget{Name: "calls", Currency: "USD", Rules: []spend.Rule{
					spend.Rolling("day", dollars(100_00), 24*time.Hour), spend.Count("calls", 100, 24*time.Hour),
				}}, &spend.Options{Budgets: []spend.Budget{{Name: "teams", Currency: "USD", Rules: []spend.Rule{spend.Lifetime("ever", dollars(100_00))}}}})
				if err != nil {
					t.Fatal(err)
				}
				r := call("call", 50, c.fate)
				var over spend.Money
				_, err = guard.Run(t.Context(), b, r, func(_ context.Context, m *guard.Meter) error {
					r.Also[0].Name = "another" // the caller may use its request again
					for _, n := range c.before {
						if err := m.Use(dollars(n)); err != nil {
							t.Error(err)
						}
					}
					f.fail(1<<20, store.ErrUnavailable)
					time.Sleep(2 * ttl)
					f.fail(0, nil)
					for _, n := range c.after {
						if err := m.Use(dollars(n)); err != nil {
							t.Error(err)
						}
					}
					if used, held := paid(t, b); used != c.during || held != 0 {
						t.Errorf("while the work runs, %d are used and %d held; want %d used", used, held, c.during)
					}
					over = m.Over()
					return nil
				})
				if used, held := paid(t, b); err != nil || used != c.used || held != 0 {
					t.Errorf("%v; %d used, %d held; want %d used", err, used, held, c.used)
				}
				list, err := b.Remaining(t.Context(), "a")
				if err != nil || list[1].Used.Minor != c.spends {
					t.Errorf("%v; %d spends; want %d", err, list[1].Used.Minor, c.spends)
				}
				if over != dollars(c.over) {
					t.Errorf("over is %v; want %v", over, dollars(c.over))
				}
			})
		})
	}
}

// TestContext: the context of work ends when others may use the money of its hold, and only then.
func TestContext(t *testing.T) {
	gone := func(_ *testing.T, _ *spend.Budgets, f *flaky) { f.fail(4, store.ErrUnavailable) }
	void := func(t *testing.T, b *spend.Budgets, _ *flaky) {
		if _, err := b.Void(t.Context(), spend.VoidRequest{ID: "void", HoldID: "call"}); err != nil {
			t.Error(err)
		}
	}
	for _, c := range []struct {
		why  string
		fate spend.Expiry
		use  int64
		lose func(t *testing.T, b *spend.Budgets, f *flaky)
		want error // nil: the context does not end
	}{
		{"a voided hold is room for others", spend.ReleaseOnExpiry, 3, void, spend.ErrHoldEnded},
		{"whatever an expiry would have done", spend.SpendOnExpiry, 3, void, spend.ErrHoldEnded},
		{"so is one that has expired while the ledger was away", spend.ReleaseOnExpiry, 3, gone, store.ErrUnavailable},
		{"an expiry has spent the money", spend.SpendOnExpiry, 3, gone, nil},
		{"the work has used all that was held", spend.ReleaseOnExpiry, 60, func(*testing.T, *spend.Budgets, *flaky) {}, nil},
		{"the ledger is closed for good", spend.SpendOnExpiry, 3, func(_ *testing.T, _ *spend.Budgets, f *flaky) { f.fail(1, store.ErrClosed) }, store.ErrClosed},
	} {
		t.Run(c.why, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &flaky{Ledger: memledger.New(nil), from: 1 << 30}
				b := budgets(t, f)
				_, err := guard.Run(t.Context(), b, call("call", 50, c.fate), func(ctx context.Context, m *guard.Meter) error {
					if err := m.Use(dollars(c.use)); err != nil {
						t.Error(err)
					}
					c.lose(t, b, f)
					began := time.Now()
					select {
					case <-ctx.Done():
						if took := time.Since(began); took > ttl*4/3 {
							t.Errorf("told after %v", took)
						}
					case <-time.After(5 * ttl):
					}
					if cause := context.Cause(ctx); !errors.Is(cause, c.want) {
						t.Errorf("told %v; want %v", cause, c.want)
					}
					return nil
				})
				if used, held := paid(t, b); err != nil || used != c.use || held != 0 {
					t.Errorf("%v; %d used, %d held; want %d used", err, used, held, c.use)
				}
			})
		})
	}
}

// TestOpen: a meter that is opened and closed by hand keeps its hold in between, and Close takes
// the last amount for certain.
func TestOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &flaky{Ledger: memledger.New(nil), from: 1 << 30}
		b := budgets(t, f)
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		m, d, err := guard.Open(ctx, b, call("call", 50, 0))
		if m == nil || !d.Approved || err != nil || m.Held != dollars(50) {
			t.Fatalf("%+v, %+v, %v", m, d, err)
		}
		if again, d, err := guard.Open(ctx, b, call("call", 50, 0)); again != nil || !d.Replayed || err != nil {
			t.Errorf("the same request: %v, %+v, %v; want no meter", again, d, err)
		}
		time.Sleep(3 * ttl)
		if _, held := paid(t, b); held != 50 || m.Context().Err() != nil {
			t.Errorf("%d are held; %v", held, m.Context().Err())
		}
		leave()
		if m.Context().Err() == nil {
			t.Error("the context goes on without that of the caller")
		}
		f.fail(5, store.ErrUnavailable)
		if err := m.Use(dollars(10)); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("Use waits, or answers %v", err)
		}
		if err := m.Close(dollars(4)); err != nil {
			t.Errorf("Close: %v", err)
		}
		made := f.made
		if err := m.Close(spend.Money{}); err != nil || f.made != made {
			t.Errorf("a second Close: %v, %d decisions; want none", err, f.made-made)
		}
		if used, held := paid(t, b); used != 14 || held != 0 {
			t.Errorf("%d used, %d held; want 14 used", used, held)
		}
		if err := m.Use(dollars(2)); err != nil {
			t.Error(err)
		}
		if used, _ := paid(t, b); used != 16 {
			t.Errorf("%d used by a Use after Close; want 16", used)
		}

		if m, _, err = guard.Open(t.Context(), b, call("away", 50, 0)); err != nil {
			t.Fatal(err)
		}
		f.fail(1<<20, store.ErrUnavailable)
		began := time.Now()
		err = m.Close(dollars(5))
		if took := time.Since(began); !errors.Is(err, store.ErrUnavailable) || took < ttl || took > 2*ttl {
			t.Errorf("the ledger is away: %v after %v; want an error after %v", err, took, ttl)
		}
		f.fail(0, nil)
		for _, wrong := range []spend.Money{{Minor: 5, Currency: "EUR"}, dollars(-1)} {
			if err := m.Close(wrong); !errors.Is(err, spend.ErrCurrency) && !errors.Is(err, spend.ErrAmount) {
				t.Errorf("Close(%v): %v", wrong, err)
			}
		}
		if err := m.Use(dollars(math.MaxInt64)); !errors.Is(err, spend.ErrAmount) || m.Close(spend.Money{}) != nil {
			t.Errorf("a sum out of range: %v", err)
		}
		if used, held := paid(t, b); used != 21 || held != 0 {
			t.Errorf("%d used, %d held; want 21 used", used, held)
		}

		r := call("default", 50, 0)
		r.TTL = 0
		if m, _, err = guard.Open(t.Context(), b, r); err != nil {
			t.Fatal(err)
		}
		f.fail(1<<20, store.ErrUnavailable) // nobody extends the hold
		time.Sleep(31 * time.Second)
		f.fail(0, nil)
		if _, held := paid(t, b); held != 0 {
			t.Errorf("without a TTL, %d are held after 31 seconds; want 0", held)
		}
		if err := m.Close(spend.Money{}); err != nil {
			t.Error(err)
		}
	})
}

// TestExcessDated: money above an expired hold counts from its use, and not from the date of the
// hold.
func TestExcessDated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &flaky{Ledger: memledger.New(nil), from: 1 << 30}
		b := budgets(t, f)
		r := call("call", 50, spend.SpendOnExpiry)
		r.Forced, r.Dated = true, time.Now().Add(-23*time.Hour)
		if _, err := guard.Run(t.Context(), b, r, func(_ context.Context, m *guard.Meter) error {
			f.fail(1<<20, store.ErrUnavailable)
			time.Sleep(2 * ttl)
			f.fail(0, nil)
			return m.Use(dollars(57))
		}); err != nil {
			t.Fatal(err)
		}
		if used, _ := paid(t, b); used != 57 {
			t.Errorf("%d used; want 57", used)
		}
		time.Sleep(2 * time.Hour)
		if used, _ := paid(t, b); used != 7 {
			t.Errorf("%d used when the hold has left the window; want 7", used)
		}
	})
}

// TestChangedHold: somebody else has changed the hold or refunded a part, and the accounts show the
// cost of the work all the same.
func TestChangedHold(t *testing.T) {
	for _, c := range []struct {
		why    string
		change func(ctx context.Context, b *spend.Budgets) error
	}{
		{"an increase is spent, too", func(ctx context.Context, b *spend.Budgets) error {
			_, err := b.Increase(ctx, spend.IncreaseRequest{ID: "more", HoldID: "call", Amount: dollars(30)})
			return err
		}},
		{"less is spent after a decrease", func(ctx context.Context, b *spend.Budgets) error {
			_, err := b.Decrease(ctx, spend.DecreaseRequest{ID: "less", HoldID: "call", Amount: dollars(45)})
			return err
		}},
		{"a refund before the last Use", func(ctx context.Context, b *spend.Budgets) error {
			time.Sleep(2 * ttl)
			_, err := b.Refund(ctx, spend.RefundRequest{ID: "back", SpendID: "call", Amount: dollars(20)})
			return err
		}},
		{"a refund of all", func(ctx context.Context, b *spend.Budgets) error {
			time.Sleep(2 * ttl)
			_, err := b.Refund(ctx, spend.RefundRequest{ID: "back", SpendID: "call", Amount: dollars(50)})
			return err
		}},
	} {
		t.Run(c.why, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &flaky{Ledger: memledger.New(nil), from: 1 << 30}
				b := budgets(t, f)
				_, err := guard.Run(t.Context(), b, call("call", 50, spend.SpendOnExpiry), func(ctx context.Context, m *guard.Meter) error {
					f.fail(1<<20, store.ErrUnavailable)
					if err := c.change(ctx, budgets(t, f.Ledger)); err != nil {
						t.Error(err)
					}
					time.Sleep(2 * ttl)
					f.fail(0, nil)
					return m.Use(dollars(12))
				})
				if used, held := paid(t, b); err != nil || used != 12 || held != 0 {
					t.Errorf("%v; %d used, %d held; want 12 used", err, used, held)
				}
			})
		})
	}
}
