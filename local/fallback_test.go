package local_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/internal/redistest"
	"github.com/brimgo/brim/internal/seed"
	"github.com/brimgo/brim/local"
	"github.com/brimgo/brim/redisstore"
	"github.com/brimgo/brim/store"
)

// failing is a store that fails as a test says.
type failing struct {
	store.Store
	mu   sync.Mutex
	mode failure
	asks int
}

type failure int

const (
	working  failure = iota
	refusing         // no connection
	hanging          // the server does not answer: the outcome is unknown when the context ends
	readOnly         // questions are answered
)

func (f *failing) set(mode failure) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mode, f.asks = mode, 0
}

// calls returns the number of calls that found the store failing.
func (f *failing) calls() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asks
}

// fail returns the error of a call; asks tells whether it changes nothing.
func (f *failing) fail(ctx context.Context, asks bool) error {
	f.mu.Lock()
	mode := f.mode
	if mode != working {
		f.asks++
	}
	f.mu.Unlock()
	switch mode {
	case refusing:
		return store.ErrUnavailable
	case readOnly:
		if !asks {
			return store.ErrUnavailable
		}
	case hanging:
		<-ctx.Done()
		if asks {
			return store.ErrUnavailable
		}
		return errors.Join(store.ErrUnknownOutcome, ctx.Err())
	}
	return nil
}

func (f *failing) Fill(ctx context.Context, op store.Op) (store.State, error) {
	if err := f.fail(ctx, op.Mode == store.Ask); err != nil {
		return store.State{}, err
	}
	return f.Store.Fill(ctx, op)
}

func (f *failing) Apply(ctx context.Context, txns ...store.Txn) ([]store.Result, error) {
	asks := !slices.ContainsFunc(txns, func(txn store.Txn) bool { return !txn.Asks() })
	if err := f.fail(ctx, asks); err != nil {
		return nil, err
	}
	return f.Store.Apply(ctx, txns...)
}

func fallback(t testing.TB, s store.Store, o *local.FallbackOptions) store.Store {
	t.Helper()
	return closing(t)(local.Fallback(s, inMemory(t, nil), o))
}

// TestFallback goes through an outage of each kind.
func TestFallback(t *testing.T) {
	limit := brim.Limit{Capacity: 100, LeakRate: 0.001}
	for _, c := range []struct {
		name  string
		mode  failure
		first error         // of the first call of the outage
		takes time.Duration // that call
	}{
		{"no connection", refusing, nil, 0},
		{"no answer", hanging, store.ErrUnknownOutcome, 100 * time.Millisecond}, // the default of Patience
		{"no writes", readOnly, nil, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inner := &failing{Store: inMemory(t, nil)}
				var told []error
				lim := brim.New(fallback(t, inner, &local.FallbackOptions{
					Switched: func(err error) { told = append(told, err) },
				}), nil)
				b := limit.For("k")
				fill := func(n float64) (brim.State, error) { return lim.TryFillup(t.Context(), b, n) }
				if st, err := fill(90); err != nil || !st.Accepted || st.Estimate {
					t.Fatalf("before: %v, %v", st, err)
				}
				inner.set(c.mode)
				began := time.Now()
				st, err := fill(1)
				if took := time.Since(began); !errors.Is(err, c.first) || (err == nil) != (c.first == nil) || took != c.takes {
					t.Fatalf("the first call: %v, %v after %v", st, err, took)
				}
				used := 1.0
				if c.first != nil { // it may have gone in, so the standby store was not asked
					used = 0
				}
				for _, step := range []struct {
					n        float64
					accepted bool
					retry    time.Duration
				}{{24 - used, true, 0}, {1, true, 0}, {1, false, 4000 * time.Second}, {26, false, time.Second}, {101, false, brim.Never}} {
					began := time.Now()
					st, err := fill(step.n)
					if err != nil || !st.Estimate || st.Accepted != step.accepted || time.Since(began) != 0 ||
						(st.RetryAfter-step.retry).Abs() > step.retry/100 {
						t.Errorf("%v units: %v, %v", step.n, st, err)
					}
				}
				able, err := lim.AbleToAccept(t.Context(), b, 1)
				if err != nil || able.Accepted || !able.Estimate {
					t.Errorf("AbleToAccept: %v, %v", able, err)
				}
				states, err := lim.TryFillupAll(t.Context(), brim.Fill{Bucket: b, Amount: 1}, brim.Fill{Bucket: limit.For("other"), Amount: 1})
				if err != nil || states[0].Accepted || !states[1].Estimate {
					t.Errorf("TryFillupAll: %v, %v", states, err)
				}
				if _, err := lim.Fillup(t.Context(), limit.For("third"), 500); err != nil {
					t.Errorf("Fillup: %v", err)
				}
				for name, call := range map[string]func(context.Context, brim.Bucket, float64) (brim.State, error){
					"Hold": lim.Hold, "Drain": lim.Drain,
				} {
					ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
					if _, err := call(ctx, b, 1); !errors.Is(err, store.ErrUnavailable) && !errors.Is(err, store.ErrUnknownOutcome) {
						t.Errorf("%s: %v; want the error of the store", name, err)
					}
					cancel()
				}
				for range 100 { // ten seconds
					time.Sleep(100 * time.Millisecond)
					if _, err := fill(0.001); err != nil {
						t.Errorf("during the outage: %v", err)
					}
				}
				if asks := inner.calls(); asks > 30 {
					t.Errorf("a store that fails was called %d times in ten seconds", asks)
				}
				inner.set(working)
				time.Sleep(1100 * time.Millisecond)
				_, _ = fill(0.001) // asks whether the store answers
				synctest.Wait()
				if st, err := fill(10); err != nil || st.Estimate || !st.Accepted {
					t.Errorf("after: %v, %v; want the answer of the store, which has room for 10", st, err)
				}
				if len(told) != 2 || told[0] == nil || told[1] != nil {
					t.Errorf("told %v; want an error and nil", told)
				}
			})
		})
	}
}

var ten = brim.Limit{Capacity: 10, LeakRate: 1}

// TestFallbackIsNotForCallersErrors: a caller that leaves, or asks for nonsense, is no outage.
func TestFallbackIsNotForCallersErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := &failing{Store: inMemory(t, nil)}
		lim := brim.New(fallback(t, inner, &local.FallbackOptions{Switched: func(err error) { t.Errorf("told %v", err) }}), nil)
		inner.set(hanging)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := lim.TryFillup(ctx, ten.For("k"), 1); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a short deadline: %v", err)
		}
		inner.set(working)
		if _, err := lim.Release(t.Context(), ten.For("k"), 1); !errors.Is(err, brim.ErrNotHeld) {
			t.Errorf("a release of nothing: %v", err)
		}
		if st, err := lim.TryFillup(t.Context(), ten.For("k"), 1); err != nil || st.Estimate {
			t.Errorf("%v, %v", st, err)
		}
	})
}

// TestFallbackBound runs four processes through outages at random times. They admit no more than the
// documented bound, and no caller of TryFillup gets an error from a store that refuses connections.
func TestFallbackBound(t *testing.T) {
	for attempt := range seed.Attempts(8, 2000) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(uint64(attempt), 36))
			const processes, share = 4, 0.25
			limit := brim.Limit{Capacity: float64(1 + r.IntN(200)), LeakRate: float64(r.IntN(50))}
			shared := inMemory(t, nil)
			inner := &failing{Store: shared}
			var lims []*brim.Limiter
			for range processes {
				// Each process has a wrapper of its own over the one server.
				lims = append(lims, brim.New(fallback(t, kept{inner}, &local.FallbackOptions{Share: share}), nil))
			}
			start, admitted, outages, down := time.Now(), 0.0, 0, time.Duration(0)
			for range 5 {
				for _, failure := range []failure{working, refusing} {
					inner.set(failure)
					lasts := time.Duration(1+r.IntN(30_000)) * time.Millisecond
					if failure == refusing {
						outages++
						down += lasts
					}
					for until := time.Now().Add(lasts); time.Now().Before(until); {
						n := float64(1 + r.IntN(3))
						st, err := lims[r.IntN(processes)].TryFillup(t.Context(), limit.For("k"), n)
						must(t, err)
						if st.Accepted {
							admitted += n
						}
						time.Sleep(time.Duration(r.IntN(20)) * time.Millisecond)
					}
				}
			}
			took := time.Since(start).Seconds()
			// A process goes back to the store up to Retry and a call after the end of an outage.
			down += time.Duration(outages) * 1100 * time.Millisecond
			bound := limit.Capacity + limit.LeakRate*took +
				processes*share*(float64(outages)*limit.Capacity+limit.LeakRate*down.Seconds())
			if admitted > bound {
				t.Errorf("attempt %d: %v units admitted, at most %v", attempt, admitted, bound)
			}
		})
	}
}

// kept is a store that a wrapper does not close.
type kept struct{ store.Store }

func (kept) Close() error { return nil }

func TestFallbackClosed(t *testing.T) {
	s := fallback(t, inMemory(t, nil), nil)
	must(t, s.Close())
	if _, err := s.Fill(t.Context(), store.Op{Bucket: ten.For("k"), Amount: 1}); !errors.Is(err, store.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// TestFallbackOverRedis kills a server, and stops one so that it answers nothing, while four processes
// fill a bucket. All together admit no more than the bound, and no caller gets an error but for calls
// that were under way when an outage began.
func TestFallbackOverRedis(t *testing.T) {
	for _, c := range []struct {
		name       string
		begin, end func(*redistest.Server) error
	}{
		{"killed", (*redistest.Server).Kill, func(s *redistest.Server) error { return s.Start() }},
		{"stopped", (*redistest.Server).Pause, (*redistest.Server).Resume},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			const processes, share, perProcess = 4, 0.25, 3
			limit := brim.Limit{Capacity: 400, LeakRate: 100}
			server := redistest.NewServer(t, "appendonly yes", "appendfsync always")
			var failures, admitted, outages, down atomic.Int64 // down: processes in an outage
			var wg sync.WaitGroup
			start, over := time.Now(), make(chan struct{})
			for range processes {
				client := server.Client(t)
				db, err := redisstore.New(client, nil)
				must(t, err)
				lim := brim.New(fallback(t, db, &local.FallbackOptions{
					Share: share, Patience: 300 * time.Millisecond, Retry: 200 * time.Millisecond,
					Switched: func(err error) {
						if err == nil {
							down.Add(-1)
							return
						}
						down.Add(1)
						outages.Add(1) // a machine that is busy may have more than the one of the server
					},
				}), nil)
				for range perProcess {
					wg.Go(func() {
						for failed := int64(0); ; time.Sleep(time.Millisecond) {
							select {
							case <-over:
								return
							default:
							}
							st, err := lim.TryFillup(t.Context(), limit.For("k"), 1)
							switch {
							case errors.Is(err, brim.ErrUnknownOutcome) && failed < outages.Load():
								failed++ // it was under way when an outage of this process began
								failures.Add(1)
							case err != nil:
								t.Errorf("after %d failures in %d outages: %v", failed, outages.Load(), err)
								return
							case st.Accepted:
								admitted.Add(1)
							}
						}
					})
				}
			}
			time.Sleep(500 * time.Millisecond)
			must(t, c.begin(server))
			time.Sleep(time.Duration(seed.Attempts(2, 30)) * time.Second)
			if n := down.Load(); n != processes {
				t.Errorf("%d of %d processes noticed the outage", n, processes)
			}
			must(t, c.end(server))
			for deadline := time.Now().Add(30 * time.Second); down.Load() > 0; time.Sleep(time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatal("a process does not go back to the server")
				}
			}
			took := time.Since(start).Seconds()
			close(over)
			wg.Wait()
			bound := limit.Capacity + limit.LeakRate*took +
				share*(float64(outages.Load())*limit.Capacity+processes*limit.LeakRate*took)
			// A fill whose answer was lost counts in the store and not here.
			if n := float64(admitted.Load()); n > bound {
				t.Errorf("%v units admitted, at most %v", n, bound)
			}
			t.Logf("%d admitted of at most %.0f in %d outages; %d calls under way failed",
				admitted.Load(), bound, outages.Load(), failures.Load())
		})
	}
}
