package local_test

import (
	"cmp"
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
	only string // the key that fails; "": every key
	err  error  // of mode refusing
	asks int
}

type failure int

const (
	working  failure = iota
	refusing         // err
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
func (f *failing) fail(ctx context.Context, key string, asks bool) error {
	f.mu.Lock()
	mode, err := f.mode, cmp.Or(f.err, store.ErrUnavailable)
	if f.only != "" && f.only != key || mode == readOnly && asks {
		mode = working
	}
	if mode != working {
		f.asks++
	}
	f.mu.Unlock()
	switch mode {
	case refusing, readOnly:
		return err
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
	if err := f.fail(ctx, op.Key, op.Mode == store.Ask); err != nil {
		return store.State{}, err
	}
	return f.Store.Fill(ctx, op)
}

func (f *failing) Apply(ctx context.Context, txns ...store.Txn) ([]store.Result, error) {
	asks := !slices.ContainsFunc(txns, func(txn store.Txn) bool { return !txn.Asks() })
	if err := f.fail(ctx, txns[0][0].Key, asks); err != nil {
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
		takes time.Duration // the first call of the outage
		told  int           // changes that the program is told of
	}{
		{"no connection", refusing, 0, 2},
		{"no answer", hanging, local.DefaultPatience, 2},
		{"no writes", readOnly, 0, 0}, // each key is late by itself, since questions are answered
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inner := &failing{Store: inMemory(t, nil)}
				var told []error
				lim := brim.New(fallback(t, inner, &local.FallbackOptions{
					Share: 0.25, Switched: func(err error) { told = append(told, err) },
				}), nil)
				b := limit.For("k")
				fill := func(n float64) (brim.State, error) { return lim.TryFillup(t.Context(), b, n) }
				if st, err := fill(90); err != nil || !st.Accepted || st.Estimate {
					t.Fatalf("before: %v, %v", st, err)
				}
				inner.set(c.mode)
				for i, step := range []struct {
					n        float64
					accepted bool
					retry    time.Duration
				}{{1, true, 0}, {23, true, 0}, {1, true, 0}, {1, false, 4000 * time.Second}, {26, false, time.Second}, {101, false, brim.Never}} {
					takes := time.Duration(0)
					if i == 0 {
						takes = c.takes
					}
					began := time.Now()
					st, err := fill(step.n)
					if took := time.Since(began); err != nil || !st.Estimate || st.Accepted != step.accepted || took != takes ||
						(st.RetryAfter-step.retry).Abs() > step.retry/100 {
						t.Errorf("call %d, of %v units: %v, %v after %v, want %+v after %v", i, step.n, st, err, took, step, takes)
					}
					synctest.Wait()
				}
				able, err := lim.AbleToAccept(t.Context(), b, 1)
				if err != nil || able.Accepted || !able.Estimate {
					t.Errorf("AbleToAccept: %v, %v", able, err)
				}
				states, err := lim.TryFillupAll(t.Context(), brim.Fill{Bucket: b, Amount: 1}, brim.Fill{Bucket: limit.For("other"), Amount: 1})
				if err != nil || states[0].Accepted || !states[1].Estimate {
					t.Errorf("TryFillupAll: %v, %v", states, err)
				}
				if st, err := lim.Fillup(t.Context(), limit.For("third"), 500); err != nil || !st.Estimate {
					t.Errorf("Fillup: %v, %v", st, err)
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
					if st, err := fill(0.001); err != nil || !st.Estimate {
						t.Errorf("during the outage: %v, %v", st, err)
					}
				}
				if asks := inner.calls(); asks > 30 {
					t.Errorf("a store that fails was called %d times in ten seconds", asks)
				}
				inner.set(working)
				time.Sleep(1100 * time.Millisecond)
				_, _ = fill(0.001) // asks whether the store answers
				synctest.Wait()
				if st, err := fill(9); err != nil || st.Estimate || !st.Accepted {
					t.Errorf("after: %v, %v; want the answer of the store, which has room for 9", st, err)
				}
				if len(told) != c.told || c.told > 0 && (told[0] == nil || told[1] != nil) {
					t.Errorf("told %v; want an error and nil, or nothing of keys", told)
				}
			})
		})
	}
}

var ten = brim.Limit{Capacity: 10, LeakRate: 1}

// TestFallbackOfAKey: a key that is overdue, for instance because somebody holds its row, sends
// only its own calls to the standby store.
func TestFallbackOfAKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := &failing{Store: inMemory(t, nil), only: "slow"}
		lim := brim.New(fallback(t, inner, &local.FallbackOptions{Switched: func(err error) { t.Errorf("told %v", err) }}), nil)
		inner.set(hanging)
		fill := func(after, takes time.Duration, estimate bool, keys ...string) {
			t.Helper()
			time.Sleep(after)
			began := time.Now()
			var fills []brim.Fill
			for _, key := range keys {
				fills = append(fills, brim.Fill{Bucket: ten.For(key), Amount: 1})
			}
			states, err := lim.TryFillupAll(t.Context(), fills...)
			if took := time.Since(began); err != nil || states[0].Estimate != estimate || took != takes {
				t.Errorf("%v: %v, %v after %v; want an estimate %v after %v", keys, states, err, took, estimate, takes)
			}
		}
		patience := local.DefaultPatience
		fill(0, patience, true, "slow")
		fill(0, 0, true, "slow")
		fill(0, 0, false, "other")
		fill(0, patience, true, "slow", "all") // which of the two is late, nobody knows
		fill(0, 0, true, "slow", "all")
		fill(0, 0, false, "other", "all")
		fill(local.DefaultRetry, patience, true, "slow")
		fill(0, 0, true, "slow")
		inner.set(working)
		fill(local.DefaultRetry, 0, false, "slow")
		fill(0, 0, false, "slow", "all")
	})
}

// TestFallbackBelowPatience: a deadline of the caller neither opens the limit nor judges the store.
func TestFallbackBelowPatience(t *testing.T) {
	const callers, deadline = 2000, 50 * time.Millisecond
	for _, c := range []struct {
		name     string
		mode     failure
		takes    time.Duration // the store, if it works
		accepted int           // of the first callers
		told     int
	}{
		{"the store hangs", hanging, 0, 10, 1},
		{"the store is slower than the callers", working, 60 * time.Millisecond, 10, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inner := &failing{Store: slow{inMemory(t, nil), c.takes}}
				inner.set(c.mode)
				var told atomic.Int64
				lim := brim.New(fallback(t, inner, &local.FallbackOptions{Switched: func(error) { told.Add(1) }}), nil)
				var passed, failed, early atomic.Int64
				var callersLeft sync.WaitGroup
				for range callers {
					callersLeft.Go(func() {
						ctx, cancel := context.WithTimeout(t.Context(), deadline)
						defer cancel()
						began := time.Now()
						st, err := lim.TryFillup(ctx, ten.For("k"), 1)
						switch {
						case err != nil:
							failed.Add(1)
						case st.Accepted:
							passed.Add(1)
						}
						switch time.Since(began) {
						case deadline:
						case 0:
							early.Add(1)
						default:
							t.Errorf("an answer after %v", time.Since(began))
						}
					})
				}
				callersLeft.Wait()
				if passed.Load() != int64(c.accepted) || failed.Load() != 0 {
					t.Errorf("%d of %d passed and %d got an error; want %d and 0", passed.Load(), callers, failed.Load(), c.accepted)
				}
				if n := early.Load(); n != callers-1024 {
					t.Errorf("%d callers got an answer at once; want %d, since 1024 calls go on without their callers", n, callers-1024)
				}
				time.Sleep(local.DefaultPatience)
				if n := told.Load(); n != int64(c.told) {
					t.Errorf("told of %d outages, want %d", n, c.told)
				}
				st, err := lim.TryFillup(t.Context(), ten.For("k"), 1)
				if err != nil || st.Accepted || st.Estimate != (c.mode == hanging) {
					t.Errorf("%v, %v; want the answer of the store, which counts the calls that went on, if it works", st, err)
				}
			})
		})
	}
}

// slow is a store that takes a time for each fill.
type slow struct {
	store.Store
	takes time.Duration
}

func (s slow) Fill(ctx context.Context, op store.Op) (store.State, error) {
	if op.Mode != store.Ask {
		time.Sleep(s.takes)
	}
	return s.Store.Fill(ctx, op)
}

// TestFallbackOfErrors: only a store that is out of reach lets the standby store decide, and a
// caller that leaves tells nothing about the store.
func TestFallbackOfErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := &failing{Store: inMemory(t, nil)}
		lim := brim.New(fallback(t, inner, &local.FallbackOptions{Switched: func(err error) { t.Errorf("told %v", err) }}), nil)
		inner.set(hanging)
		for _, deadline := range []time.Duration{time.Millisecond, time.Hour} {
			ctx, cancel := context.WithTimeout(t.Context(), deadline)
			time.AfterFunc(time.Millisecond/2, cancel)
			if st, err := lim.TryFillup(ctx, ten.For("k"), 1); !errors.Is(err, context.Canceled) || !errors.Is(err, store.ErrUnknownOutcome) {
				t.Errorf("a caller with a deadline of %v that leaves: %v, %v", deadline, st, err)
			}
			if st, err := lim.AbleToAccept(ctx, ten.For("k"), 1); !errors.Is(err, context.Canceled) || errors.Is(err, store.ErrUnknownOutcome) {
				t.Errorf("a question of a caller that has left: %v, %v", st, err)
			}
		}
		inner.set(working)
		synctest.Wait()
		for _, want := range []error{
			store.ErrMisconfigured, store.ErrCorrupt, store.ErrClosed, store.ErrFull, store.ErrInvalidKey, errors.New("of no class"),
		} {
			inner.err = want
			inner.set(refusing)
			for range 2 {
				if st, err := lim.TryFillup(t.Context(), ten.For("other"), 1); !errors.Is(err, want) {
					t.Errorf("%v, %v; want the error of the store, %v", st, err, want)
				}
			}
		}
		inner.set(working)
		if _, err := lim.Release(t.Context(), ten.For("k"), 1); !errors.Is(err, brim.ErrNotHeld) {
			t.Errorf("a release of nothing: %v", err)
		}
		if st, err := lim.TryFillup(t.Context(), ten.For("other"), 1); err != nil || st.Estimate {
			t.Errorf("%v, %v", st, err)
		}
	})
}

// TestFallbackBound runs four processes through outages at random times. They admit no more than
// the documented bound, and no caller of TryFillup gets an error from a store that refuses
// connections.
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
			start, admitted := time.Now(), 0.0
			for range 5 {
				for _, failure := range []failure{working, refusing} {
					inner.set(failure)
					lasts := time.Duration(1+r.IntN(30_000)) * time.Millisecond
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
			bound := (1 + processes*share) * (limit.Capacity + limit.LeakRate*took)
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

// TestFallbackOverRedis kills a server, and stops one so that it answers nothing, while four
// processes fill a bucket. All together admit no more than the bound, and no caller gets an error.
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
			var admitted, outages, down atomic.Int64 // down: processes in an outage
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
						for ; ; time.Sleep(time.Millisecond) {
							select {
							case <-over:
								return
							default:
							}
							st, err := lim.TryFillup(t.Context(), limit.For("k"), 1)
							switch {
							case err != nil:
								t.Errorf("in %d outages: %v", outages.Load(), err)
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
			bound := (1 + processes*share) * (limit.Capacity + limit.LeakRate*took)
			// A fill whose answer was lost counts in the store and not here.
			if n := float64(admitted.Load()); n > bound {
				t.Errorf("%v units admitted, at most %v", n, bound)
			}
			t.Logf("%d admitted of at most %.0f in %d outages", admitted.Load(), bound, outages.Load())
		})
	}
}
