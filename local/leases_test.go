package local_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brimgo/brim/brimtest"
	"github.com/brimgo/brim/local"
	"github.com/brimgo/brim/store"
)

var limit = store.Limit{Capacity: 100_000, LeakRate: 1000}

// leased returns leases over a store in memory, that store and the clock of both.
func leased(t testing.TB) (store.Store, *watched, *brimtest.Clock) {
	t.Helper()
	clock := newManual()
	inner := &watched{Store: inMemory(t, clock.Now)}
	return leases(t, inner, &local.LeasesOptions{Clock: clock.Now, Ahead: 100 * time.Millisecond}), inner, clock
}

// warm asks a bucket until it is served from an allotment.
func warm(t testing.TB, s store.Store, clock *brimtest.Clock, b store.Bucket) store.State {
	t.Helper()
	for range 1000 {
		clock.Advance(time.Millisecond)
		if st := try(t, s, b, 1); !st.Accepted {
			t.Fatalf("%+v", st)
		} else if st.Estimate {
			return st
		}
	}
	t.Fatal("no allotment after 1000 calls in a second")
	return store.State{}
}

func TestServedFromAllotments(t *testing.T) {
	s, inner, clock := leased(t)
	b := limit.For("k")
	st := warm(t, s, clock, b)
	if st.Capacity != limit.Capacity || st.LeakRate != limit.LeakRate || st.Full || st.RetryAfter != 0 || st.Level <= 0 {
		t.Errorf("a call served from an allotment: %+v", st)
	}
	before := inner.fills.Load()
	accepted := 0
	for range 10_000 {
		clock.Advance(50 * time.Microsecond) // 20,000 calls a second; the bucket holds 100,000
		if try(t, s, b, 1).Accepted {
			accepted++
		}
	}
	fills := inner.fills.Load() - before
	t.Logf("%d of 10000 accepted with %d calls to the store", accepted, fills)
	if accepted != 10_000 || fills > 500 {
		t.Errorf("%d of 10000 accepted with %d calls to the store, want all with 500 at most", accepted, fills)
	}
	got, err := s.Read(t.Context(), b)
	if err != nil || got[0].Level < 10_000-limit.LeakRate || got[0].Level > limit.Capacity/4 {
		t.Errorf("the bucket holds %+v, %v; want the served units and those in allotments, below the share", got[0], err)
	}
}

// TestLeasesQuestions asks a bucket that has an allotment. The answer is that of a TryFillup, which
// the allotment may serve although the bucket in the store has no room, and a question takes
// nothing.
func TestLeasesQuestions(t *testing.T) {
	s, inner, clock := leased(t)
	b := limit.For("k")
	warm(t, s, clock, b)
	do(t, inner.Store, store.Op{Bucket: b, Amount: b.Capacity, Mode: store.Clamp}) // by another process
	ask := store.Op{Bucket: b, Amount: 1, Mode: store.Ask}
	before := inner.fills.Load()
	for range 1000 {
		if st := do(t, s, ask); !st.Accepted || !st.Estimate || st.RetryAfter != 0 {
			t.Fatalf("a question: %+v; want yes from the allotment", st)
		}
	}
	if st := try(t, s, b, 1); !st.Accepted || !st.Estimate {
		t.Errorf("the fill after the questions: %+v; want it served from the allotment", st)
	}
	if n := inner.fills.Load() - before; n != 0 {
		t.Errorf("%d calls reached the store, want none", n)
	}
	for name, op := range map[string]store.Op{
		"more than the allotment": {Bucket: b, Amount: b.Capacity / 2, Mode: store.Ask},
		"a hold":                  {Bucket: b, Hold: 1, Mode: store.Ask},
		"another limit":           {Bucket: store.Limit{Capacity: 10, LeakRate: 1}.For("k"), Amount: 1, Mode: store.Ask},
	} {
		if st := do(t, s, op); st.Accepted || st.Estimate {
			t.Errorf("a question about %s: %+v; want the store's no", name, st)
		}
	}
	clock.Advance(2 * time.Second) // the allotment has lapsed; 2000 units have leaked
	if st := do(t, s, ask); !st.Accepted || st.Estimate {
		t.Errorf("a question after the allotment: %+v; want the store's yes", st)
	}
}

// TestEndsAllotment changes a bucket through the same store.
func TestEndsAllotment(t *testing.T) {
	b, unlimited := limit.For("k"), store.Bucket{Key: "k"}
	faster := store.Limit{Capacity: limit.Capacity, LeakRate: 2 * limit.LeakRate}.For("k")
	for _, c := range []struct {
		name  string
		ops   []store.Op // none: Delete
		apply bool       // in a transaction
		ends  bool
		why   string
	}{
		{"delete", nil, false, true, "the units are in no bucket any more"},
		{"another limit", []store.Op{{Bucket: faster, Amount: 1}}, false, true, "the bucket leaks faster than the allotment"},
		{"another limit", []store.Op{{Bucket: faster, Amount: 1}}, true, true, "the bucket leaks faster than the allotment"},
		{"penalty", []store.Op{{Bucket: b, Amount: b.Capacity + 1, BlockFor: time.Hour}}, false, true, "nothing fits into a blocked bucket"},
		{"block", []store.Op{{Bucket: b, BlockFor: time.Hour, Mode: store.Block}}, false, true, "nothing fits into a blocked bucket"},
		{"block", []store.Op{{Bucket: b, BlockFor: time.Hour, Mode: store.Block}}, true, true, "nothing fits into a blocked bucket"},
		{"unblock", []store.Op{{Bucket: unlimited, Mode: store.Unblock}}, false, false, "there was no block"},
		{"question by another limit", []store.Op{{Bucket: faster, Amount: 1, Mode: store.Ask}}, false, false, "a question stores no limit"},
		{
			"question by another limit",
			[]store.Op{{Bucket: faster, Amount: 1, Mode: store.Ask}, {Bucket: limit.For("other"), Amount: 1}},
			true, false, "a question stores no limit",
		},
		{"drain", []store.Op{{Bucket: b, Amount: -1, Mode: store.Always}}, false, false, "a drain makes room, as it does without leases"},
		{"drain without a limit", []store.Op{{Bucket: unlimited, Amount: -1, Mode: store.Always}}, false, false, "the limit last written stays"},
		{"fillup", []store.Op{{Bucket: b, Amount: 1, Mode: store.Clamp}}, false, false, "the units of the allotment are in the bucket already"},
		{"fillup that loses units", []store.Op{{Bucket: b, Amount: b.Capacity, Mode: store.Clamp}}, false, true, "without leases the bucket would be full"},
		{"units beyond the capacity", []store.Op{{Bucket: b, Amount: b.Capacity, Mode: store.Always}}, true, true, "without leases the bucket would be full"},
	} {
		t.Run(fmt.Sprint(c.name, ", in a transaction: ", c.apply), func(t *testing.T) {
			s, _, clock := leased(t)
			warm(t, s, clock, b)
			var err error
			switch {
			case len(c.ops) == 0:
				err = s.Delete(t.Context(), b.Key)
			case c.apply:
				_, err = s.Apply(t.Context(), c.ops)
			default:
				do(t, s, c.ops[0])
			}
			if st := try(t, s, b, 1); err != nil || st.Estimate == c.ends {
				t.Errorf("served from an allotment: %v (%v), want %v\nwhy: %s", st.Estimate, err, !c.ends, c.why)
			}
		})
	}
}

// TestAnotherLimitComesLast asks by another limit while a request for an allotment is on its way.
// The request goes out with the old limit, so it must come first: the bucket must not leak at the
// old rate afterwards.
func TestAnotherLimitComesLast(t *testing.T) {
	for _, call := range []func(context.Context, store.Store, store.Op) error{
		func(ctx context.Context, s store.Store, op store.Op) error { _, err := s.Fill(ctx, op); return err },
		func(ctx context.Context, s store.Store, op store.Op) error {
			_, err := s.Apply(ctx, store.Txn{op})
			return err
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			s, inner, clock := leased(t)
			requested := make(chan struct{})
			inner.before = func(op store.Op) error {
				if op.Ceiling != 0 {
					<-requested
				}
				return nil
			}
			b := limit.For("k")
			asked := make(chan error, 1000)
			ctx, leave := context.WithCancel(t.Context())
			for range cap(asked) { // until one of them waits for an allotment
				clock.Advance(time.Millisecond)
				go func() {
					_, err := s.Fill(ctx, store.Op{Bucket: b, Amount: 1})
					asked <- err
				}()
				if synctest.Wait(); len(asked) == 0 {
					break
				}
				must(t, <-asked)
			}
			// The one that waits leaves, since its call could come after the next as well as before
			// it.
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
			must(t, <-done)
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
		{"no leak", store.Limit{Capacity: 1e6}, time.Millisecond, 0, "units of a lost allotment would stay in the bucket for ever"},
		{"slow leak", store.Limit{Capacity: 1e6, LeakRate: 1}, time.Millisecond, 0, "an allotment holds at most the leak of a second, which is one unit"},
		{"rarely asked", store.Limit{Capacity: 1e6, LeakRate: 1e4}, time.Second, 0, "the allotment would lapse before the next call"},
		{"nearly full", store.Limit{Capacity: 1e6, LeakRate: 10}, time.Millisecond, 300_000, "allotments fill a bucket to their share at most"},
		{"small", store.Limit{Capacity: 20, LeakRate: 5000}, time.Millisecond, 0, "a quarter of the share is less than four calls"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, inner, clock := leased(t)
			b := c.limit.For("k")
			try(t, inner, b, c.level)
			for range 500 {
				clock.Advance(c.every)
				if st := try(t, s, b, 1); st.Estimate || !st.Accepted {
					t.Fatalf("%+v; want the store's answer\nwhy: %s", st, c.why)
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
	s, inner, clock := leased(t)
	boom := errors.New("boom")
	inner.before = func(op store.Op) error {
		if op.Ceiling != 0 { // only requests for allotments have a ceiling
			return boom
		}
		return nil
	}
	for range 1000 {
		clock.Advance(time.Millisecond)
		if st := try(t, s, limit.For("k"), 1); !st.Accepted || st.Estimate {
			t.Fatalf("%+v; want each call decided by the store", st)
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
	s, inner, clock := leased(t)
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

func TestBoundedBuckets(t *testing.T) {
	clock := newManual()
	inner := inMemory(t, clock.Now)
	s := leases(t, inner, &local.LeasesOptions{Clock: clock.Now, Ahead: 100 * time.Millisecond, MaxBuckets: 1})
	for i := range 300 {
		b := limit.For(string(rune('a' + i)))
		warm(t, s, clock, b)
		if got, err := s.Read(t.Context(), b); err != nil || got[0].Level <= 0 {
			t.Fatalf("%+v, %v", got, err)
		}
	}
	if n := local.Accounts(s); n > 7 {
		t.Errorf("%d buckets have accounts, want 7 at most, which one set has room for", n)
	}
	if local.Accounts(s) == 0 {
		t.Error("no bucket has an account; the next check would be empty")
	}
	must(t, s.Close())
	if n := local.Accounts(s); n != 0 {
		t.Errorf("a closed store keeps %d accounts; want 0, because the application may keep the store", n)
	}
}

func TestBadUse(t *testing.T) {
	m := inMemory(t, nil)
	leases := func(o local.LeasesOptions) func() (store.Store, error) {
		return func() (store.Store, error) { return local.Leases(m, &o) }
	}
	refusals := func(o local.RefusalsOptions) func() (store.Store, error) {
		return func() (store.Store, error) { return local.Refusals(m, &o) }
	}
	fallback := func(s, standby store.Store, o local.FallbackOptions) func() (store.Store, error) {
		return func() (store.Store, error) { return local.Fallback(s, standby, &o) }
	}
	for _, c := range []struct {
		open func() (store.Store, error)
		says string
	}{
		{func() (store.Store, error) { return local.Leases(nil, nil) }, store.ErrClosed.Error()},
		{leases(local.LeasesOptions{Share: -0.1}), "Share is -0.1"},
		{leases(local.LeasesOptions{Share: 1}), "Share is 1"},
		{leases(local.LeasesOptions{Ahead: -1}), "Ahead is -1ns"},
		{leases(local.LeasesOptions{MaxBuckets: -1}), "MaxBuckets is -1"},
		{func() (store.Store, error) { return local.Refusals(nil, nil) }, store.ErrClosed.Error()},
		{refusals(local.RefusalsOptions{Remember: -1}), "Remember is -1ns"},
		{refusals(local.RefusalsOptions{MaxBuckets: -1}), "MaxBuckets is -1"},
		{fallback(nil, m, local.FallbackOptions{}), "store to wrap is nil"},
		{fallback(m, nil, local.FallbackOptions{}), "standby store is nil"},
		{fallback(m, m, local.FallbackOptions{Share: 2}), "Share is 2"},
		{fallback(m, m, local.FallbackOptions{Share: -1}), "Share is -1"},
		{fallback(m, m, local.FallbackOptions{Patience: -1}), "Patience is -1ns"},
		{fallback(m, m, local.FallbackOptions{Retry: -1}), "Retry is -1ns; it must be"},
	} {
		if s, err := c.open(); s != nil || err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v, %v; want %q", s, err, c.says)
		}
	}
}

// TestLeasesFlood has more busy buckets than the store has accounts. One bucket is asked more often
// than all others.
func TestLeasesFlood(t *testing.T) {
	clock := newManual()
	s := leases(t, inMemory(t, clock.Now), &local.LeasesOptions{Clock: clock.Now, Ahead: 100 * time.Millisecond, MaxBuckets: 256})
	limit := store.Limit{Capacity: 1e6, LeakRate: 1e6}
	ask := func(key string) store.State {
		clock.Advance(time.Microsecond)
		return try(t, s, limit.For(key), 1)
	}
	const calls, others = 30_000, 2000
	served := 0
	for i := range calls {
		if ask("hot").Estimate {
			served++
		}
		ask(fmt.Sprintf("other %d", i%others))
	}
	if n := local.Accounts(s); n > 256 {
		t.Errorf("%d buckets have accounts, want 256 at most", n)
	}
	t.Logf("%d of %d calls served from allotments", served, calls)
	if served < calls/2 {
		t.Errorf("%d of %d calls on the hottest bucket were served from allotments, want half at least\n"+
			"why: an account that newcomers push out at once never measures its bucket's demand, "+
			"and no bucket gets an allotment", served, calls)
	}
}
