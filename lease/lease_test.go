package lease_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/brimgo/brim/lease"
	"github.com/brimgo/brim/memory"
	"github.com/brimgo/brim/store"
	"github.com/brimgo/brim/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestConformance runs the whole suite with a share too small for any slice. What is served from slices is not the exact
// answer that the suite demands: a bucket with slices out is fuller than what was let in. TestModel is what holds then; here
// is everything that goes to the store, which must come back as it is.
func TestConformance(t *testing.T) {
	at := func(t *testing.T, clock func() time.Time) store.Store {
		return wrap(t, inMemory(t, clock), &lease.Options{Share: 1e-30})
	}
	storetest.Run(t, func(t *testing.T) store.Store { return at(t, nil) }, &storetest.Options{
		OpenAt: at, Operations: 5000, Keys: 1000,
	})
}

func inMemory(t testing.TB, clock func() time.Time) store.Store {
	t.Helper()
	s, err := memory.New(&memory.Options{Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func wrap(t testing.TB, s store.Store, o *lease.Options) *lease.Store {
	t.Helper()
	w, err := lease.New(s, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	return w
}

// watched counts the fills that reach a store, and does with each what the test says.
type watched struct {
	store.Store
	fills  atomic.Int64
	before func(op store.Op) error
}

func (w *watched) Fill(ctx context.Context, op store.Op) (store.State, error) {
	w.fills.Add(1)
	if w.before != nil {
		if err := w.before(op); err != nil {
			return store.State{}, err
		}
	}
	return w.Store.Fill(ctx, op)
}

// manual is a clock that only the test moves.
type manual struct{ ns atomic.Int64 }

func newManual() *manual {
	c := &manual{}
	c.ns.Store(1_767_225_600_000_000_000)
	return c
}

func (c *manual) now() time.Time       { return time.Unix(0, c.ns.Load()) }
func (c *manual) step(d time.Duration) { c.ns.Add(int64(d)) }

// warm makes a bucket busy until it is served from a slice.
func warm(t testing.TB, s store.Store, clock *manual, b store.Bucket) store.State {
	t.Helper()
	for range 1000 {
		clock.step(time.Millisecond)
		st, err := s.Fill(t.Context(), store.Op{Bucket: b, Amount: 1})
		if err != nil || !st.Accepted {
			t.Fatalf("%+v, %v", st, err)
		}
		if st.Estimate {
			return st
		}
	}
	t.Fatal("no slice after 1000 calls in a second")
	return store.State{}
}

var limit = store.Limit{Capacity: 100_000, LeakRate: 1000}

func TestServedFromSlices(t *testing.T) {
	clock := newManual()
	inner := &watched{Store: inMemory(t, clock.now)}
	s := wrap(t, inner, &lease.Options{Clock: clock.now, Ahead: 100 * time.Millisecond})
	b := limit.For("k")
	st := warm(t, s, clock, b)
	if st.Capacity != limit.Capacity || st.LeakRate != limit.LeakRate || st.Full || st.RetryAfter != 0 || st.Level <= 0 {
		t.Errorf("a call served from a slice: %+v", st)
	}
	before := inner.fills.Load()
	accepted := 0
	for range 10_000 {
		clock.step(50 * time.Microsecond) // 20,000 a second, of which the bucket has room for 100,000
		st, err := s.Fill(t.Context(), store.Op{Bucket: b, Amount: 1})
		if err != nil {
			t.Fatal(err)
		}
		if st.Accepted {
			accepted++
		}
	}
	fills := inner.fills.Load() - before
	t.Logf("%d of 10000 accepted in %d calls to the store", accepted, fills)
	if accepted != 10_000 || fills > 500 {
		t.Errorf("%d of 10000 accepted in %d calls to the store, want all, in 500 at most", accepted, fills)
	}
	got, err := s.Read(t.Context(), b)
	if err != nil || got[0].Level < 10_000-limit.LeakRate || got[0].Level > lease.DefaultShare*limit.Capacity {
		t.Errorf("the bucket holds %+v, %v; want what was let in and what is in slices, below the share", got[0], err)
	}
}

// TestEndsSlice has a bucket changed through the same store.
func TestEndsSlice(t *testing.T) {
	for _, c := range []struct {
		name string
		call func(ctx context.Context, s store.Store, b store.Bucket) error
		ends bool
		why  string
	}{
		{"delete", func(ctx context.Context, s store.Store, b store.Bucket) error { return s.Delete(ctx, b.Key) }, true, "the units are in no bucket any more"},
		{"another limit", func(ctx context.Context, s store.Store, b store.Bucket) error {
			b.LeakRate *= 2
			_, err := s.Fill(ctx, store.Op{Bucket: b, Amount: 1})
			return err
		}, true, "the bucket leaks faster than the slice"},
		{"another limit in a transaction", func(ctx context.Context, s store.Store, b store.Bucket) error {
			b.LeakRate *= 2
			_, err := s.Apply(ctx, store.Txn{{Bucket: b, Amount: 1}})
			return err
		}, true, "the bucket leaks faster than the slice"},
		{"block", func(ctx context.Context, s store.Store, b store.Bucket) error {
			_, err := s.Fill(ctx, store.Op{Bucket: b, Amount: b.Capacity + 1, BlockFor: time.Hour})
			return err
		}, true, "nothing fits into a blocked bucket"},
		{"drain", func(ctx context.Context, s store.Store, b store.Bucket) error {
			_, err := s.Fill(ctx, store.Op{Bucket: b, Amount: -1, Mode: store.Always})
			return err
		}, false, "a drain makes room, as it does without leases"},
		{"fillup", func(ctx context.Context, s store.Store, b store.Bucket) error {
			_, err := s.Fill(ctx, store.Op{Bucket: b, Amount: 1, Mode: store.Clamp})
			return err
		}, false, "what is in the slice is in the bucket already"},
	} {
		t.Run(c.name, func(t *testing.T) {
			clock := newManual()
			s := wrap(t, inMemory(t, clock.now), &lease.Options{Clock: clock.now, Ahead: 100 * time.Millisecond})
			b := limit.For("k")
			warm(t, s, clock, b)
			if err := c.call(t.Context(), s, b); err != nil {
				t.Fatal(err)
			}
			st, err := s.Fill(t.Context(), store.Op{Bucket: b, Amount: 1})
			if err != nil || st.Estimate == c.ends {
				t.Errorf("from a slice: %v (%v), want %v\nwhy: %s", st.Estimate, err, !c.ends, c.why)
			}
		})
	}
}

// TestAsksOneByOne has buckets for which a slice is not worth it, or not to be had.
func TestAsksOneByOne(t *testing.T) {
	for _, c := range []struct {
		name  string
		limit store.Limit
		every time.Duration
		level float64 // to begin with
		why   string
	}{
		{"no leak", store.Limit{Capacity: 1e6}, time.Millisecond, 0, "a slice that is lost would be lost for good"},
		{"slow leak", store.Limit{Capacity: 1e6, LeakRate: 1}, time.Millisecond, 0, "a slice may last a second, and a second is one unit"},
		{"rarely asked", store.Limit{Capacity: 1e6, LeakRate: 1e4}, time.Second, 0, "the slice would have leaked before the next call"},
		{"nearly full", store.Limit{Capacity: 1e6, LeakRate: 10}, time.Millisecond, 300_000, "slices have their share only"},
		{"small", store.Limit{Capacity: 20, LeakRate: 5000}, time.Millisecond, 0, "a part of the share is less than some calls"},
	} {
		t.Run(c.name, func(t *testing.T) {
			clock := newManual()
			inner := inMemory(t, clock.now)
			s := wrap(t, inner, &lease.Options{Clock: clock.now, Ahead: 100 * time.Millisecond})
			b := c.limit.For("k")
			if _, err := inner.Fill(t.Context(), store.Op{Bucket: b, Amount: c.level}); err != nil {
				t.Fatal(err)
			}
			for range 500 {
				clock.step(c.every)
				if st, err := s.Fill(t.Context(), store.Op{Bucket: b, Amount: 1}); err != nil || st.Estimate || !st.Accepted {
					t.Fatalf("%+v, %v; want the store's answer\nwhy: %s", st, err, c.why)
				}
			}
			if got, err := s.Read(t.Context(), b); err != nil || got[0].Level > c.level+500 {
				t.Errorf("%+v, %v: more in the bucket than was let in", got[0], err)
			}
		})
	}
}

// TestFailing has slices fail while calls go on.
func TestFailing(t *testing.T) {
	clock := newManual()
	inner := &watched{Store: inMemory(t, clock.now)}
	boom := errors.New("boom")
	inner.before = func(op store.Op) error {
		if op.Ceiling != 0 { // as only slices have it
			return boom
		}
		return nil
	}
	s := wrap(t, inner, &lease.Options{Clock: clock.now, Ahead: 100 * time.Millisecond})
	for range 1000 {
		clock.step(time.Millisecond)
		if st, err := s.Fill(t.Context(), store.Op{Bucket: limit.For("k"), Amount: 1}); err != nil || !st.Accepted || st.Estimate {
			t.Fatalf("%+v, %v; want each decided by itself", st, err)
		}
	}
	if fills := inner.fills.Load(); fills > 1050 {
		t.Errorf("%d calls to the store for 1000 calls: a slice that fails must not be asked for all the time", fills)
	}
	inner.before = func(store.Op) error { return boom }
	if _, err := s.Fill(t.Context(), store.Op{Bucket: limit.For("k"), Amount: 1}); !errors.Is(err, boom) {
		t.Errorf("%v, want the store's error", err)
	}
}

// TestWaitersAndContexts has callers wait for a slice that takes long.
func TestWaitersAndContexts(t *testing.T) {
	clock := newManual()
	inner := &watched{Store: inMemory(t, clock.now)}
	s := wrap(t, inner, &lease.Options{Clock: clock.now, Ahead: 100 * time.Millisecond})
	b := limit.For("k")
	warm(t, s, clock, b)
	asked, proceed := make(chan struct{}), make(chan struct{})
	var slices atomic.Int64
	inner.before = func(op store.Op) error {
		if op.Ceiling != 0 && slices.Add(1) == 1 {
			close(asked)
			<-proceed
		}
		return nil
	}
	// Use it up until one is being taken, and what was left is gone.
	var wg sync.WaitGroup
	drain := func(ctx context.Context, n int) {
		wg.Go(func() {
			for range n {
				if _, err := s.Fill(ctx, store.Op{Bucket: b, Amount: 1}); err != nil && ctx.Err() == nil {
					t.Error(err)
				}
			}
		})
	}
	drain(t.Context(), 500)
	<-asked
	short, cancel := context.WithCancel(t.Context())
	drain(short, 500)
	cancel()
	if _, err := s.Fill(short, store.Op{Bucket: b, Amount: 1}); !errors.Is(err, context.Canceled) || errors.Is(err, store.ErrUnknownOutcome) {
		t.Errorf("a context that is done: %v", err)
	}
	close(proceed)
	wg.Wait()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := s.Fill(t.Context(), store.Op{Bucket: b, Amount: 1}); !errors.Is(err, store.ErrClosed) {
		t.Errorf("after Close: %v, want ErrClosed", err)
	}
}

// TestManyCallers lets goroutines at one bucket on the real clock, through two processes.
func TestManyCallers(t *testing.T) {
	inner := &watched{Store: inMemory(t, nil)}
	b := store.Limit{Capacity: 100_000, LeakRate: 50_000}.For("hot")
	var accepted, slices atomic.Int64
	start := time.Now()
	var wg sync.WaitGroup
	for range 2 {
		s, err := lease.New(inner, nil)
		if err != nil {
			t.Fatal(err)
		}
		for range 8 {
			wg.Go(func() {
				for range 8000 {
					st, err := s.Fill(context.Background(), store.Op{Bucket: b, Amount: 1})
					if err != nil {
						t.Error(err)
						return
					}
					if st.Accepted {
						accepted.Add(1)
					}
					if st.Estimate {
						slices.Add(1)
					}
				}
			})
		}
	}
	wg.Wait()
	bound := b.Capacity + b.LeakRate*time.Since(start).Seconds() + 1
	t.Logf("%d of 128000 accepted, %d from slices, bound %.0f, %d calls to the store", accepted.Load(), slices.Load(), bound, inner.fills.Load())
	if float64(accepted.Load()) > bound {
		t.Errorf("%d accepted, want %.0f at most", accepted.Load(), bound)
	}
	if slices.Load() == 0 {
		t.Error("none from slices: that proves nothing")
	}
}

func TestBoundedBuckets(t *testing.T) {
	clock := newManual()
	inner := inMemory(t, clock.now)
	s := wrap(t, inner, &lease.Options{Clock: clock.now, Ahead: 100 * time.Millisecond, MaxBuckets: 1})
	for i := range 300 {
		b := limit.For(string(rune('a' + i)))
		warm(t, s, clock, b)
		if got, err := s.Read(t.Context(), b); err != nil || got[0].Level <= 0 {
			t.Fatalf("%+v, %v", got, err)
		}
	}
	if n := lease.Pools(s); n > 64 {
		t.Errorf("%d buckets have slices, want 64 at most: one for each part of the table", n)
	}
}

func TestBadUse(t *testing.T) {
	inner := inMemory(t, nil)
	defer inner.Close()
	if _, err := lease.New(nil, nil); !errors.Is(err, store.ErrClosed) {
		t.Errorf("no store: %v, want ErrClosed", err)
	}
	for _, o := range []lease.Options{{Share: -0.1}, {Share: 1}, {Ahead: -1}, {MaxBuckets: -1}} {
		if _, err := lease.New(inner, &o); err == nil {
			t.Errorf("%+v: no error", o)
		}
	}
}
