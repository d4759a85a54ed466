package bench

import (
	"context"
	"errors"
	"math"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brimgo/brim/memory"
	"github.com/brimgo/brim/store"
)

func inMemory(t *testing.T) store.Store {
	t.Helper()
	s := memory.New(nil)
	t.Cleanup(func() { s.Close() })
	return s
}

// counting counts the calls of a store, and its refusals.
type counting struct {
	store.Store
	asked, refused atomic.Int64
}

func (c *counting) Fill(ctx context.Context, op store.Op) (store.State, error) {
	st, err := c.Store.Fill(ctx, op)
	if op.Capacity == limit.Capacity {
		c.asked.Add(1)
		if !st.Accepted {
			c.refused.Add(1)
		}
	}
	return st, err
}

func TestRun(t *testing.T) {
	for _, refused := range []float64{0, 0.25, 1} {
		s := &counting{Store: inMemory(t)}
		var shares []float64
		rep, err := Run(t.Context(), Options{
			Store: s, Callers: 4, Keys: 10, Duration: 50 * time.Millisecond, Refused: refused, Prefix: "bench/",
			Progress: func(share float64) { shares = append(shares, share) },
		})
		if err != nil {
			t.Fatal(err)
		}
		if rep.AdmittedBeyondLimit != 0 {
			t.Errorf("a correct store admitted %v beyond the limit", rep.AdmittedBeyondLimit)
		}
		if rep.Callers != 4 || rep.Keys != 10 || rep.DecisionsPerSecond <= 0 || rep.P50 <= 0 || rep.P99 < rep.P50 {
			t.Errorf("got %+v", rep)
		}
		if rep.Ratio != nil || rep.ReferencePerSecond != nil || rep.ReferenceP99 != nil {
			t.Errorf("without a reference, the report is %+v", rep)
		}
		if got := float64(s.refused.Load()) / float64(s.asked.Load()); math.Abs(got-refused) > 0.1 {
			t.Errorf("the share that was refused is %v; want %v", got, refused)
		}
		if len(shares) == 0 || shares[len(shares)-1] != 1 {
			t.Errorf("progress %v; want 1 at the end", shares)
		}
	}
}

// generous is a store that reports its refusals as admissions.
type generous struct{ store.Store }

func (g generous) Fill(ctx context.Context, op store.Op) (store.State, error) {
	st, err := g.Store.Fill(ctx, op)
	st.Accepted = true
	return st, err
}

func TestAdmittedBeyondLimitIsFound(t *testing.T) {
	for _, refused := range []float64{0, 0.5} {
		o := Options{
			Store:    generous{inMemory(t)},
			Callers:  2,
			Keys:     1,
			Duration: 500 * time.Millisecond, // callers rush for a fifth of it, and must make more than 100 calls
			Refused:  refused,
		}
		rep, err := Run(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		if rep.AdmittedBeyondLimit <= 0 {
			t.Errorf("refused %v: a store that accepts everything passed for correct", refused)
		}
	}
}

func TestBeyond(t *testing.T) {
	l := store.Limit{Capacity: 10, LeakRate: 2}
	for admitted, want := range map[int64]float64{0: 0, 12: 0, 13: 0, 14: 1, 20: 7} {
		if got := beyond(l, admitted, 1900*time.Millisecond); got != want {
			t.Errorf("%d admitted in 1.9 s are %v beyond 10 + 3.8; want %v, because all amounts are whole",
				admitted, got, want)
		}
	}
}

// failing is a store that fails after some calls.
type failing struct {
	store.Store
	left atomic.Int64
	err  error
}

func (f *failing) Fill(ctx context.Context, op store.Op) (store.State, error) {
	if f.left.Add(-1) < 0 {
		return store.State{}, f.err
	}
	return f.Store.Fill(ctx, op)
}

func TestFailureEndsTheRun(t *testing.T) {
	broken := errors.New("broken")
	s := &failing{Store: inMemory(t), err: broken}
	s.left.Store(1000)
	_, err := Run(t.Context(), Options{Store: s, Callers: 8, Keys: 10, Duration: time.Hour})
	if !errors.Is(err, broken) {
		t.Errorf("got %v; want the store's error at once", err)
	}
}

// slow is a store that takes a millisecond for a decision.
type slow struct{ store.Store }

func (s slow) Fill(ctx context.Context, op store.Op) (store.State, error) {
	time.Sleep(time.Millisecond)
	return s.Store.Fill(ctx, op)
}

// An interrupt leaves the report of the part that was measured. The store is twice as fast as the
// reference.
func TestInterrupt(t *testing.T) {
	reference := &Reference{Decide: func(context.Context, int) error { time.Sleep(2 * time.Millisecond); return nil }}
	for name, tc := range map[string]struct {
		after            time.Duration
		reference        *Reference
		none             bool // no report
		theirs, complete bool
	}{
		"while it warms up":            {after: 100 * time.Millisecond, none: true},
		"in the only trial":            {after: 300 * time.Millisecond},
		"in the rush":                  {after: 10300 * time.Millisecond},
		"never":                        {after: time.Hour, complete: true},
		"before the reference's trial": {after: 1400 * time.Millisecond, reference: reference},
		"in the reference's trial":     {after: 3400 * time.Millisecond, reference: reference, theirs: true},
		"in a second trial":            {after: 4401 * time.Millisecond, reference: reference, theirs: true},
		"never, beside the reference":  {after: time.Hour, reference: reference, theirs: true, complete: true},
		"while the reference warms up": {after: 300 * time.Millisecond, reference: reference, none: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cause := errors.New("interrupted")
				ctx, cancel := context.WithCancelCause(t.Context())
				timer := time.AfterFunc(tc.after, func() { cancel(cause) })
				defer timer.Stop()
				rep, err := Run(ctx, Options{
					Store: slow{inMemory(t)}, Callers: 1, Keys: 10, Duration: 10 * time.Second, Reference: tc.reference,
				})
				if tc.complete != (err == nil) || err != nil && !errors.Is(err, cause) {
					t.Fatalf("got %v; want the interrupt: %v", err, !tc.complete)
				}
				if tc.none || rep == nil {
					if !tc.none || rep != nil {
						t.Errorf("got %+v; want no report: %v", rep, tc.none)
					}
					return
				}
				if rep.Complete != tc.complete || math.Abs(rep.DecisionsPerSecond-1000) > 20 || rep.Keys != 10 || rep.P50 < 0.9 {
					t.Errorf("got %+v; want 1000 decisions per second, complete: %v", rep, tc.complete)
				}
				if (rep.Ratio != nil) != tc.theirs || tc.theirs && math.Abs(*rep.Ratio-2) > 0.1 {
					t.Errorf("got %+v; want a ratio of 2: %v", rep, tc.theirs)
				}
			})
		})
	}
}
