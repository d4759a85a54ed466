package local_test

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/brimgo/brim/internal/differ"
	"github.com/brimgo/brim/local"
	"github.com/brimgo/brim/store"
)

func TestRefusedFromMemory(t *testing.T) {
	clock := newManual()
	inner := &watched{Store: inMemory(t, clock.Now)}
	s := refusals(t, inner, &local.RefusalsOptions{Clock: clock.Now, Remember: time.Minute})
	b := store.Limit{Capacity: 10, LeakRate: 2}.For("k")
	if st := try(t, s, b, 10); !st.Accepted || st.Estimate {
		t.Fatalf("10 into an empty bucket: %+v", st)
	}
	asked := inner.fills.Load()
	for _, c := range []struct {
		after    time.Duration
		n, level float64
		wait     time.Duration
		why      string
	}{
		{0, 1, 10, 500 * time.Millisecond, "the fill that was just accepted has filled the bucket"},
		{0, 10, 10, 5 * time.Second, "a larger amount waits longer"},
		{0, 11, 10, store.Never, "an amount above the capacity never fits"},
		{250 * time.Millisecond, 1, 9.5, 250 * time.Millisecond, "the wait counts down and the level leaks"},
		{249_999 * time.Microsecond, 1, 9.000002, time.Microsecond, "the wait is exact to the microsecond"},
	} {
		clock.Advance(c.after)
		st := try(t, s, b, c.n)
		if st.Accepted || st.Full || !st.Estimate || st.RetryAfter != c.wait || !near(st.Level, c.level) ||
			st.Capacity != 10 || st.LeakRate != 2 || !st.At.Equal(clock.Now()) {
			t.Errorf("%v: %+v, want level %v, wait %v\nwhy: %s", c.n, st, c.level, c.wait, c.why)
		}
	}
	if n := inner.fills.Load(); n != asked {
		t.Errorf("the store was asked %d times, want 0", n-asked)
	}
	clock.Advance(time.Microsecond)
	if st := try(t, s, b, 1); !st.Accepted || st.Estimate {
		t.Errorf("after the wait: %+v, want accepted by the store", st)
	}
}

func near(a, b float64) bool { return a-b < 1e-9 && b-a < 1e-9 }

// TestRefusalsFlood asks one bucket at a fixed rate, a twentieth of which the bucket accepts. Every
// decision must be the decision of the store alone, and few calls may reach the store.
func TestRefusalsFlood(t *testing.T) {
	for _, c := range []struct {
		name string
		n    func(*rand.Rand) float64
		rate float64
	}{
		{"equal costs", func(*rand.Rand) float64 { return 1 }, 50},
		{"mixed costs", func(r *rand.Rand) float64 { return float64(1 + r.IntN(4)) }, 125},
	} {
		t.Run(c.name, func(t *testing.T) {
			clock := newManual()
			inner, alone := &watched{Store: inMemory(t, clock.Now)}, inMemory(t, clock.Now)
			s := refusals(t, inner, &local.RefusalsOptions{Clock: clock.Now})
			b := store.Limit{Capacity: 16, LeakRate: c.rate}.For("hot")
			r := rand.New(rand.NewPCG(1, 1))
			accepted, decisions := 0, 20_000
			for range decisions {
				clock.Advance(time.Millisecond)
				n := c.n(r)
				got, want := try(t, s, b, n), try(t, alone, b, n)
				if got.Accepted != want.Accepted || got.RetryAfter != want.RetryAfter {
					t.Fatalf("%v units, against the answer of the store alone:\n%s", n, differ.Fields(got, want))
				}
				if got.Accepted {
					accepted++
				}
			}
			share := float64(inner.fills.Load()) / float64(decisions)
			t.Logf("%d of %d accepted; %.2f %% of the calls reached the store", accepted, decisions, 100*share)
			if c.name == "equal costs" && share > 0.06 {
				t.Errorf("%.1f %% of the calls reached the store, want 6 %% at most\nwhy: the store accepts 5 %%", 100*share)
			}
			if refused := inner.fills.Load() - int64(accepted); refused > int64(accepted)/20 {
				t.Errorf("the store refused %d calls, want %d at most\nwhy: the wrapper knows nearly all refusals beforehand",
					refused, accepted/20)
			}
		})
	}
}

// TestBound resets a bucket past the wrapper. The wrapper must notice within Remember.
func TestBound(t *testing.T) {
	for _, c := range []struct {
		remember, bound time.Duration
	}{{0, time.Second}, {200 * time.Millisecond, 200 * time.Millisecond}} {
		clock := newManual()
		inner := inMemory(t, clock.Now)
		s := refusals(t, inner, &local.RefusalsOptions{Clock: clock.Now, Remember: c.remember})
		b := store.Limit{Capacity: 10}.For("k")
		try(t, s, b, 10)
		if st := try(t, s, b, 1); st.Accepted || st.RetryAfter != store.Never {
			t.Fatalf("%+v", st)
		}
		must(t, inner.Delete(t.Context(), "k"))
		clock.Advance(c.bound - 1)
		if st := try(t, s, b, 1); st.Accepted {
			t.Errorf("just before %v: %+v, want refused from memory", c.bound, st)
		}
		clock.Advance(1)
		if st := try(t, s, b, 11); st.Accepted || !st.Estimate || st.RetryAfter != store.Never {
			t.Errorf("more than the capacity: %+v, want refused from memory at any age", st)
		}
		if st := try(t, s, b, 1); !st.Accepted {
			t.Errorf("after %v: %+v, want accepted into the room that the reset made", c.bound, st)
		}
	}
}

// makesRoom lists the calls that make room in a bucket or change its limit.
var makesRoom = []struct {
	name string
	call func(t *testing.T, s store.Store, b store.Bucket, now time.Time)
}{
	{"drain", func(t *testing.T, s store.Store, b store.Bucket, _ time.Time) {
		do(t, s, store.Op{Bucket: b, Amount: -5, Mode: store.Always})
	}},
	{"release", func(t *testing.T, s store.Store, b store.Bucket, _ time.Time) {
		do(t, s, store.Op{Bucket: b, Hold: -5, Mode: store.Always})
	}},
	{"capture", func(t *testing.T, s store.Store, b store.Bucket, _ time.Time) {
		do(t, s, store.Op{Bucket: b, Hold: -5, Amount: 1, Mode: store.Always})
	}},
	{"taken back", func(t *testing.T, s store.Store, b store.Bucket, now time.Time) {
		do(t, s, store.Op{Bucket: b, Amount: -4, Ceiling: 20, CeilingAt: now})
	}},
	{"delete", func(t *testing.T, s store.Store, b store.Bucket, _ time.Time) {
		must(t, s.Delete(t.Context(), "other", b.Key))
	}},
	{"unblock", func(t *testing.T, s store.Store, b store.Bucket, _ time.Time) {
		do(t, s, store.Op{Bucket: b, Amount: -5, Mode: store.Always})
		do(t, s, store.Op{Bucket: b, BlockFor: time.Hour, Mode: store.Block})
		if st := do(t, s, store.Op{Bucket: b, Amount: 3}); st.Accepted || st.RetryAfter != time.Hour {
			t.Errorf("after a block: %+v, want a wait of an hour, not the wait for room", st)
		}
		do(t, s, store.Op{Bucket: store.Bucket{Key: b.Key}, Mode: store.Unblock})
	}},
	{"apply", func(t *testing.T, s store.Store, b store.Bucket, _ time.Time) {
		if _, err := s.Apply(t.Context(), store.Txn{{Bucket: b, Amount: -5, Mode: store.Always}}); err != nil {
			t.Fatal(err)
		}
	}},
	{"refused under another limit", func(t *testing.T, s store.Store, b store.Bucket, _ time.Time) {
		b.LeakRate = 5e6
		full := store.Op{Bucket: store.Limit{Capacity: 1}.For("other"), Amount: 1}
		do(t, s, full)
		results, err := s.Apply(t.Context(), store.Txn{{Bucket: b, Amount: 1}, full})
		if err != nil || results[0].Accepted {
			t.Errorf("%+v, %v; want it refused", results, err)
		}
	}},
	{"another limit", func(t *testing.T, s store.Store, b store.Bucket, _ time.Time) {
		b.LeakRate = 5e6 // five units leak in a microsecond, once the limit is written
		do(t, s, store.Op{Bucket: b, Amount: 1, Mode: store.Always})
	}},
}

// TestForgetsAtOnce makes room through the wrapper while a refusal is remembered or still in
// flight.
func TestForgetsAtOnce(t *testing.T) {
	const why = "a refusal must be forgotten after the call that made room for the amount"
	for _, c := range makesRoom {
		for _, v := range []struct {
			name     string
			inFlight bool
		}{{"remembered", false}, {"in flight", true}} {
			t.Run(c.name+"/"+v.name, func(t *testing.T) {
				clock := newManual()
				hold := newHolding(inMemory(t, clock.Now))
				s := refusals(t, hold, &local.RefusalsOptions{Clock: clock.Now, Remember: time.Hour})
				b := store.Limit{Capacity: 10, LeakRate: 1e-3}.For("k")
				do(t, hold.Store, store.Op{Bucket: b, Amount: 4.5})
				do(t, hold.Store, store.Op{Bucket: b, Hold: 5})
				done := make(chan store.State, 1)
				refused := func() {
					st, err := s.Fill(delay(t.Context()), store.Op{Bucket: b, Amount: 3})
					if err != nil {
						t.Error(err)
					}
					done <- st
				}
				go refused()
				if st := <-hold.decided; st.Accepted {
					t.Fatalf("%+v", st)
				}
				if !v.inFlight {
					hold.release <- nil
					<-done
					if st := try(t, s, b, 3); !st.Estimate {
						t.Fatalf("%+v, want refused from memory", st)
					}
				}
				clock.Advance(time.Microsecond)
				c.call(t, s, b, clock.Now())
				if v.inFlight {
					hold.release <- nil
					if st := <-done; st.Accepted || st.Estimate {
						t.Fatalf("the call in flight: %+v, want the store's refusal", st)
					}
				}
				clock.Advance(time.Microsecond) // another rate holds from its call on
				if st := try(t, s, b, 3); !st.Accepted {
					t.Errorf("%+v, want accepted\nwhy: %s", st, why)
				}
			})
		}
	}
}

// TestRefusalsQuestions asks about a bucket. A remembered refusal answers no; every other question
// reaches the store, and neither keeps callers waiting nor makes the wrapper forget.
func TestRefusalsQuestions(t *testing.T) {
	clock := newManual()
	inner := &watched{Store: inMemory(t, clock.Now)}
	s := refusals(t, inner, &local.RefusalsOptions{Clock: clock.Now, Remember: time.Hour})
	b := store.Limit{Capacity: 10, LeakRate: 1}.For("k")
	ask := func(n float64) store.State {
		t.Helper()
		return do(t, s, store.Op{Bucket: b, Amount: n, Mode: store.Ask})
	}
	do(t, s, store.Op{Bucket: b, Amount: 8})
	for _, c := range []struct {
		n        float64
		accepted bool
		retry    time.Duration
		asks     int64
	}{
		{3, false, time.Second, 1},
		{2, true, 0, 1},
		{11, false, store.Never, 1},
	} {
		before := inner.fills.Load()
		if st := ask(c.n); st.Accepted != c.accepted || st.RetryAfter != c.retry || inner.fills.Load()-before > c.asks {
			t.Errorf("a question about %v: %+v", c.n, st)
		}
	}
	if st := try(t, s, b, 3); st.Accepted {
		t.Fatalf("%+v", st)
	}
	before := inner.fills.Load()
	for range 3 {
		if st := ask(3); st.Accepted || !st.Estimate || st.RetryAfter != time.Second {
			t.Errorf("a question about a refused amount: %+v; want the remembered refusal", st)
		}
	}
	if st := try(t, s, b, 3); !st.Estimate || inner.fills.Load() != before {
		t.Errorf("after the questions: %+v and %d calls; want the refusal from memory", st, inner.fills.Load()-before)
	}
	if _, err := s.Apply(t.Context(), store.Txn{{Bucket: b, Amount: 1, Mode: store.Ask}}); err != nil {
		t.Fatal(err)
	}
	if st := try(t, s, b, 3); !st.Estimate {
		t.Errorf("after a question in Apply: %+v; want the refusal from memory", st)
	}
}

// TestForgetsAnotherLimit: a fill that failed may have gone in under a limit that leaks faster. The
// snapshot of the limit before says nothing about the bucket any more.
func TestForgetsAnotherLimit(t *testing.T) {
	clock := newManual()
	hold := newHolding(inMemory(t, clock.Now))
	s := refusals(t, hold, &local.RefusalsOptions{Clock: clock.Now, Remember: time.Hour})
	b := store.Limit{Capacity: 10, LeakRate: 1e-3}.For("k")
	try(t, s, b, 7.5)
	if st := try(t, s, b, 3); st.Accepted {
		t.Fatalf("%+v", st)
	}
	if st := try(t, s, b, 3); !st.Estimate {
		t.Fatalf("%+v, want refused from memory", st)
	}
	faster := b
	faster.LeakRate = 5e6 // five units leak in a microsecond
	done := make(chan error)
	go func() {
		_, err := s.Fill(delay(t.Context()), store.Op{Bucket: faster, Amount: 1})
		done <- err
	}()
	if st := <-hold.decided; !st.Accepted {
		t.Fatalf("%+v", st)
	}
	hold.release <- store.ErrUnknownOutcome
	if err := <-done; !errors.Is(err, store.ErrUnknownOutcome) {
		t.Fatalf("error %v", err)
	}
	clock.Advance(time.Microsecond)
	if st := try(t, s, b, 3); !st.Accepted {
		t.Errorf("%+v, want accepted: the fill that failed has made room", st)
	}
}

// TestPruneForgets prunes a bucket. Then it sets the clock back by more than MaxSkew, to a time
// at which the bucket was not empty. The store finds an empty bucket, and so must the wrapper.
func TestPruneForgets(t *testing.T) {
	clock := newManual()
	count := &watched{Store: inMemory(t, clock.Now)}
	s := refusals(t, count, &local.RefusalsOptions{Clock: clock.Now, Remember: 1000 * time.Hour})
	b := store.Limit{Capacity: 4, LeakRate: 1}.For("k")
	do(t, s, store.Op{Bucket: b, Amount: 15, Mode: store.Always})
	if try(t, s, b, 1).Accepted || !try(t, s, b, 1).Estimate {
		t.Fatal("a full bucket was not refused from memory")
	}
	clock.Advance(time.Hour)
	if n, err := s.Prune(t.Context()); n != 1 || err != nil {
		t.Fatalf("%d pruned, %v", n, err)
	}
	clock.Advance(time.Second - time.Hour)
	asked := count.fills.Load()
	if st := try(t, s, b, 1); !st.Accepted || count.fills.Load() != asked+1 {
		t.Errorf("%+v, want accepted by the store", st)
	}
}

func TestNothingAllocated(t *testing.T) {
	s := refusals(t, inMemory(t, nil), &local.RefusalsOptions{Remember: time.Hour})
	b := store.Limit{Capacity: 10, LeakRate: 1e-6}.For("tenant:42")
	try(t, s, b, 10)
	ctx := t.Context()
	for _, n := range []float64{1, 7, 11} {
		op := store.Op{Bucket: b, Amount: n}
		if allocs := testing.AllocsPerRun(1000, func() {
			if st, err := s.Fill(ctx, op); err != nil || !st.Estimate {
				t.Errorf("%+v, %v; want refused from memory", st, err)
			}
		}); allocs != 0 {
			t.Errorf("refusing %v allocates %v times", n, allocs)
		}
	}
}
