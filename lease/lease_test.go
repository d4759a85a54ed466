package lease_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/brimgo/brim/internal/redistest"
	"github.com/brimgo/brim/internal/redistest/buckets"
	"github.com/brimgo/brim/lease"
	"github.com/brimgo/brim/memory"
	"github.com/brimgo/brim/store"
	"github.com/brimgo/brim/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(redistest.With(m)) }

// TestConformance runs the whole suite with a share too small for any allotment, so that each
// call reaches the store and its answer must come back unchanged. Allotments would break the
// suite, which demands exact levels: a bucket with allotments is fuller than the units that were
// served. TestModel tests allotments.
func TestConformance(t *testing.T) {
	for _, c := range []struct {
		name       string
		over       func(testing.TB, func() time.Time) store.Store
		operations int
	}{
		{"memory", inMemory, 5000},
		{"redis", func(t testing.TB, clock func() time.Time) store.Store { return buckets.Open(t, clock) }, 1000},
	} {
		if testing.Short() {
			c.operations = 1000 // package memory makes a full run
		}
		t.Run(c.name, func(t *testing.T) {
			at := func(t *testing.T, clock func() time.Time) store.Store {
				return wrap(t, c.over(t, clock), &lease.Options{Share: 1e-30})
			}
			storetest.Run(t, func(t *testing.T) store.Store { return at(t, nil) }, &storetest.Options{
				OpenAt: at, Operations: c.operations, Keys: 1000,
			})
		})
	}
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

// watched counts the fills that reach a store.
type watched struct {
	store.Store
	fills  atomic.Int64
	before func(op store.Op) error // runs before each fill; an error fails the fill
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

// manual is a clock that moves only by step.
type manual struct{ ns atomic.Int64 }

func newManual() *manual {
	c := &manual{}
	c.ns.Store(1_767_225_600_000_000_000)
	return c
}

func (c *manual) now() time.Time       { return time.Unix(0, c.ns.Load()) }
func (c *manual) step(d time.Duration) { c.ns.Add(int64(d)) }

// warm asks a bucket until it is served from an allotment.
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
	t.Fatal("no allotment after 1000 calls in a second")
	return store.State{}
}

var limit = store.Limit{Capacity: 100_000, LeakRate: 1000}

func TestServedFromAllotments(t *testing.T) {
	clock := newManual()
	inner := &watched{Store: inMemory(t, clock.now)}
	s := wrap(t, inner, &lease.Options{Clock: clock.now, Ahead: 100 * time.Millisecond})
	b := limit.For("k")
	st := warm(t, s, clock, b)
	if st.Capacity != limit.Capacity || st.LeakRate != limit.LeakRate || st.Full || st.RetryAfter != 0 || st.Level <= 0 {
		t.Errorf("a call served from an allotment: %+v", st)
	}
	before := inner.fills.Load()
	accepted := 0
	for range 10_000 {
		clock.step(50 * time.Microsecond) // 20,000 calls a second; the bucket holds 100,000
		st, err := s.Fill(t.Context(), store.Op{Bucket: b, Amount: 1})
		if err != nil {
			t.Fatal(err)
		}
		if st.Accepted {
			accepted++
		}
	}
	fills := inner.fills.Load() - before
	t.Logf("%d of 10000 accepted with %d calls to the store", accepted, fills)
	if accepted != 10_000 || fills > 500 {
		t.Errorf("%d of 10000 accepted with %d calls to the store, want all with 500 at most", accepted, fills)
	}
	got, err := s.Read(t.Context(), b)
	if err != nil || got[0].Level < 10_000-limit.LeakRate || got[0].Level > lease.DefaultShare*limit.Capacity {
		t.Errorf("the bucket holds %+v, %v; want the served units and those in allotments, below the share", got[0], err)
	}
}

// TestQuestions asks a bucket that has an allotment. The answer is that of a TryFillup, which the
// allotment may serve although the bucket in the store has no room, and a question takes nothing.
func TestQuestions(t *testing.T) {
	clock := newManual()
	inner := &watched{Store: inMemory(t, clock.now)}
	s := wrap(t, inner, &lease.Options{Clock: clock.now, Ahead: 100 * time.Millisecond})
	b := limit.For("k")
	warm(t, s, clock, b)
	full := store.Op{Bucket: b, Amount: b.Capacity, Mode: store.Clamp} // by another process
	if _, err := inner.Store.Fill(t.Context(), full); err != nil {
		t.Fatal(err)
	}
	ask := store.Op{Bucket: b, Amount: 1, Mode: store.Ask}
	before := inner.fills.Load()
	for range 1000 {
		if st, err := s.Fill(t.Context(), ask); err != nil || !st.Accepted || !st.Estimate || st.RetryAfter != 0 {
			t.Fatalf("a question: %+v, %v; want yes from the allotment", st, err)
		}
	}
	if st, err := s.Fill(t.Context(), store.Op{Bucket: b, Amount: 1}); err != nil || !st.Accepted || !st.Estimate {
		t.Errorf("the fill after the questions: %+v, %v; want it served from the allotment", st, err)
	}
	if n := inner.fills.Load() - before; n != 0 {
		t.Errorf("%d calls reached the store, want none", n)
	}
	for name, op := range map[string]store.Op{
		"more than the allotment": {Bucket: b, Amount: b.Capacity / 2, Mode: store.Ask},
		"a hold":                  {Bucket: b, Hold: 1, Mode: store.Ask},
		"another limit":           {Bucket: store.Limit{Capacity: 10, LeakRate: 1}.For("k"), Amount: 1, Mode: store.Ask},
	} {
		if st, err := s.Fill(t.Context(), op); err != nil || st.Accepted || st.Estimate {
			t.Errorf("a question about %s: %+v, %v; want the store's no", name, st, err)
		}
	}
	clock.step(2 * time.Second) // the allotment has lapsed; 2000 units have leaked
	if st, err := s.Fill(t.Context(), ask); err != nil || !st.Accepted || st.Estimate {
		t.Errorf("a question after the allotment: %+v, %v; want the store's yes", st, err)
	}
}

// TestEndsAllotment changes a bucket through the same Store.
func TestEndsAllotment(t *testing.T) {
	for _, c := range []struct {
		name string
		call func(ctx context.Context, s store.Store, b store.Bucket) error
		ends bool
		why  string
	}{
		{"delete", func(ctx context.Context, s store.Store, b store.Bucket) error {
			return s.Delete(ctx, b.Key)
		}, true, "the units are in no bucket any more"},
		{"another limit", func(ctx context.Context, s store.Store, b store.Bucket) error {
			b.LeakRate *= 2
			_, err := s.Fill(ctx, store.Op{Bucket: b, Amount: 1})
			return err
		}, true, "the bucket leaks faster than the allotment"},
		{"another limit in a transaction", func(ctx context.Context, s store.Store, b store.Bucket) error {
			b.LeakRate *= 2
			_, err := s.Apply(ctx, store.Txn{{Bucket: b, Amount: 1}})
			return err
		}, true, "the bucket leaks faster than the allotment"},
		{"block", func(ctx context.Context, s store.Store, b store.Bucket) error {
			_, err := s.Fill(ctx, store.Op{Bucket: b, Amount: b.Capacity + 1, BlockFor: time.Hour})
			return err
		}, true, "nothing fits into a blocked bucket"},
		{"block by an operator", func(ctx context.Context, s store.Store, b store.Bucket) error {
			_, err := s.Fill(ctx, store.Op{Bucket: b, BlockFor: time.Hour, Mode: store.Block})
			return err
		}, true, "nothing fits into a blocked bucket"},
		{"block in a transaction", func(ctx context.Context, s store.Store, b store.Bucket) error {
			_, err := s.Apply(ctx, store.Txn{{Bucket: b, BlockFor: time.Hour, Mode: store.Block}})
			return err
		}, true, "nothing fits into a blocked bucket"},
		{"unblock", func(ctx context.Context, s store.Store, b store.Bucket) error {
			_, err := s.Fill(ctx, store.Op{Bucket: store.Bucket{Key: b.Key}, Mode: store.Unblock})
			return err
		}, false, "there was no block"},
		{"question by another limit", func(ctx context.Context, s store.Store, b store.Bucket) error {
			b.LeakRate *= 2
			if _, err := s.Apply(ctx, store.Txn{{Bucket: b, Amount: 1, Mode: store.Ask}}); err != nil {
				return err
			}
			_, err := s.Fill(ctx, store.Op{Bucket: b, Amount: 1, Mode: store.Ask})
			return err
		}, false, "a question stores no limit"},
		{"drain", func(ctx context.Context, s store.Store, b store.Bucket) error {
			_, err := s.Fill(ctx, store.Op{Bucket: b, Amount: -1, Mode: store.Always})
			return err
		}, false, "a drain makes room, as it does without leases"},
		{"fillup", func(ctx context.Context, s store.Store, b store.Bucket) error {
			_, err := s.Fill(ctx, store.Op{Bucket: b, Amount: 1, Mode: store.Clamp})
			return err
		}, false, "the units of the allotment are in the bucket already"},
		{"fillup that loses units", func(ctx context.Context, s store.Store, b store.Bucket) error {
			_, err := s.Fill(ctx, store.Op{Bucket: b, Amount: b.Capacity, Mode: store.Clamp})
			return err
		}, true, "without leases the bucket would be full"},
		{"units beyond the capacity, in a transaction", func(ctx context.Context, s store.Store, b store.Bucket) error {
			_, err := s.Apply(ctx, store.Txn{{Bucket: b, Amount: b.Capacity, Mode: store.Always}})
			return err
		}, true, "without leases the bucket would be full"},
		{"drain without a limit", func(ctx context.Context, s store.Store, b store.Bucket) error {
			_, err := s.Fill(ctx, store.Op{Bucket: store.Bucket{Key: b.Key}, Amount: -1, Mode: store.Always})
			return err
		}, false, "the limit last written stays"},
		{"question beside a fill", func(ctx context.Context, s store.Store, b store.Bucket) error {
			other := b
			other.LeakRate *= 2
			_, err := s.Apply(ctx, store.Txn{{Bucket: other, Amount: 1, Mode: store.Ask}, {Bucket: limit.For("other"), Amount: 1}})
			return err
		}, false, "a question stores no limit"},
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
				t.Errorf("served from an allotment: %v (%v), want %v\nwhy: %s", st.Estimate, err, !c.ends, c.why)
			}
		})
	}
}

// TestAnotherLimitComesLast asks by another limit while a request for an allotment is on its way. The
// request goes out with the old limit, so it must come first: the bucket must not leak at the old
// rate afterwards.
func TestAnotherLimitComesLast(t *testing.T) {
	for _, call := range []func(context.Context, store.Store, store.Op) error{
		func(ctx context.Context, s store.Store, op store.Op) error { _, err := s.Fill(ctx, op); return err },
		func(ctx context.Context, s store.Store, op store.Op) error {
			_, err := s.Apply(ctx, store.Txn{op})
			return err
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			clock := newManual()
			inner := &watched{Store: inMemory(t, clock.now)}
			requested := make(chan struct{})
			inner.before = func(op store.Op) error {
				if op.Ceiling != 0 {
					<-requested
				}
				return nil
			}
			s := wrap(t, inner, &lease.Options{Clock: clock.now, Ahead: 100 * time.Millisecond})
			b := limit.For("k")
			asked := make(chan error, 1000)
			ctx, leave := context.WithCancel(t.Context())
			for range cap(asked) { // until one of them waits for an allotment
				clock.step(time.Millisecond)
				go func() {
					_, err := s.Fill(ctx, store.Op{Bucket: b, Amount: 1})
					asked <- err
				}()
				if synctest.Wait(); len(asked) == 0 {
					break
				}
				if err := <-asked; err != nil {
					t.Fatal(err)
				}
			}
			// The one that waits leaves, since its call could come after the next as well as before it.
			leave()
			if err := <-asked; !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			faster := b
			faster.LeakRate *= 2
			done := make(chan error, 1)
			go func() { done <- call(t.Context(), s, store.Op{Bucket: faster, Amount: 1}) }()
			synctest.Wait()
			close(requested)
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			if got, err := inner.Read(t.Context(), store.Bucket{Key: "k"}); err != nil || got[0].LeakRate != faster.LeakRate {
				t.Errorf("%+v, %v; want the limit of the call that came last", got, err)
			}
		})
	}
}

// TestAsksOneByOne fills buckets that get no allotment. Each call must reach the store.
func TestAsksOneByOne(t *testing.T) {
	for _, c := range []struct {
		name  string
		limit store.Limit
		every time.Duration
		level float64 // before the first call
		why   string
	}{
		{
			"no leak",
			store.Limit{Capacity: 1e6},
			time.Millisecond, 0,
			"units of a lost allotment would stay in the bucket for ever",
		},
		{
			"slow leak",
			store.Limit{Capacity: 1e6, LeakRate: 1},
			time.Millisecond, 0,
			"an allotment holds at most the leak of a second, which is one unit",
		},
		{
			"rarely asked",
			store.Limit{Capacity: 1e6, LeakRate: 1e4},
			time.Second, 0,
			"the allotment would lapse before the next call",
		},
		{
			"nearly full",
			store.Limit{Capacity: 1e6, LeakRate: 10},
			time.Millisecond, 300_000,
			"allotments fill a bucket to their share at most",
		},
		{
			"small",
			store.Limit{Capacity: 20, LeakRate: 5000},
			time.Millisecond, 0,
			"a quarter of the share is less than four calls",
		},
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
				st, err := s.Fill(t.Context(), store.Op{Bucket: b, Amount: 1})
				if err != nil || st.Estimate || !st.Accepted {
					t.Fatalf("%+v, %v; want the store's answer\nwhy: %s", st, err, c.why)
				}
			}
			if got, err := s.Read(t.Context(), b); err != nil || got[0].Level > c.level+500 {
				t.Errorf("%+v, %v; want a level of the accepted units at most", got[0], err)
			}
		})
	}
}

// TestFailing lets requests for allotments fail while calls go on.
func TestFailing(t *testing.T) {
	clock := newManual()
	inner := &watched{Store: inMemory(t, clock.now)}
	boom := errors.New("boom")
	inner.before = func(op store.Op) error {
		if op.Ceiling != 0 { // only requests for allotments have a ceiling
			return boom
		}
		return nil
	}
	s := wrap(t, inner, &lease.Options{Clock: clock.now, Ahead: 100 * time.Millisecond})
	for range 1000 {
		clock.step(time.Millisecond)
		st, err := s.Fill(t.Context(), store.Op{Bucket: limit.For("k"), Amount: 1})
		if err != nil || !st.Accepted || st.Estimate {
			t.Fatalf("%+v, %v; want each call decided by the store", st, err)
		}
	}
	if fills := inner.fills.Load(); fills > 1050 {
		t.Errorf("%d calls to the store for 1000 calls, want 1050 at most\n"+
			"why: after a failed request, the account pauses", fills)
	}
	inner.before = func(store.Op) error { return boom }
	if _, err := s.Fill(t.Context(), store.Op{Bucket: limit.For("k"), Amount: 1}); !errors.Is(err, boom) {
		t.Errorf("%v, want the store's error", err)
	}
}

// TestWaitersAndContexts lets callers wait for a slow request. Their contexts end, and then the
// Store is closed.
func TestWaitersAndContexts(t *testing.T) {
	clock := newManual()
	inner := &watched{Store: inMemory(t, clock.now)}
	s := wrap(t, inner, &lease.Options{Clock: clock.now, Ahead: 100 * time.Millisecond})
	b := limit.For("k")
	warm(t, s, clock, b)
	asked, proceed := make(chan struct{}), make(chan struct{})
	var requests atomic.Int64
	inner.before = func(op store.Op) error {
		if op.Ceiling != 0 && requests.Add(1) == 1 {
			close(asked)
			<-proceed
		}
		return nil
	}
	// The first callers use up the allotment until a request is pending.
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
	_, err := s.Fill(short, store.Op{Bucket: b, Amount: 1})
	if !errors.Is(err, context.Canceled) || errors.Is(err, store.ErrUnknownOutcome) {
		t.Errorf("a context that has ended: %v, want context.Canceled alone", err)
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

// TestManyCallers calls on one bucket from many goroutines in two processes, on the real clock.
func TestManyCallers(t *testing.T) {
	inner := &watched{Store: inMemory(t, nil)}
	b := store.Limit{Capacity: 100_000, LeakRate: 50_000}.For("hot")
	var accepted, served atomic.Int64
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
						served.Add(1)
					}
				}
			})
		}
	}
	wg.Wait()
	bound := b.Capacity + b.LeakRate*time.Since(start).Seconds() + 1
	t.Logf("%d of 128000 accepted, %d from allotments, bound %.0f, %d calls to the store",
		accepted.Load(), served.Load(), bound, inner.fills.Load())
	if float64(accepted.Load()) > bound {
		t.Errorf("%d accepted, want %.0f at most", accepted.Load(), bound)
	}
	if served.Load() == 0 {
		t.Error("no call was served from an allotment, want some: the bound is then untested")
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
	if n := lease.Accounts(s); n > 64 {
		t.Errorf("%d buckets have accounts, want 64 at most: one for each shard of the table", n)
	}
	if lease.Accounts(s) == 0 {
		t.Error("no bucket has an account; the next check would be empty")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if n := lease.Accounts(s); n != 0 {
		t.Errorf("a closed store keeps %d accounts; want 0, because the application may keep the store", n)
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
