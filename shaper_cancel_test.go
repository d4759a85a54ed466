package brim_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/brimtest"
	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/internal/redistest"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/redisstore"
	"github.com/brimgo/brim/store"
)

// TestCancel cancels reservations in scripts. A reservation may be taken back only if nobody
// has reserved behind it. Turns are minutes away on this process's clock, so that only the
// store's clock matters.
func TestCancel(t *testing.T) {
	queue := brim.Limit{Capacity: 100, LeakRate: 0.001} // a unit in 1000 s
	const unit = 1000 * time.Second
	type step struct {
		// One of these is set.
		reserve float64       // units
		cancel  int           // number of the reservation, from 1
		advance time.Duration // of the store's clock

		turn  time.Duration // of the new reservation, since start
		given bool          // Cancel takes the reservation back
	}
	reserve := func(units float64, turn time.Duration) step { return step{reserve: units, turn: turn} }
	given := func(number int) step { return step{cancel: number, given: true} }
	kept := func(number int) step { return step{cancel: number} }
	pass := func(d time.Duration) step { return step{advance: d} }
	tests := []struct {
		name, why string
		steps     []step
	}{
		{
			"nobody behind", "the place is free again, so the next caller gets the same turn",
			[]step{reserve(1, 0), reserve(2, unit), given(2), reserve(1, unit)},
		},
		{
			"nobody behind, later", "units that have leaked are gone: Cancel must not take them out again",
			[]step{reserve(3, 0), reserve(2, 3*unit), pass(unit / 3), given(2), reserve(1, 3*unit)},
		},
		{
			"somebody behind", "the callers behind keep their turns, so a newcomer must not get this turn",
			[]step{reserve(1, 0), reserve(1, unit), reserve(1, 2*unit), kept(2), reserve(1, 3*unit)},
		},
		{
			"somebody behind, later", "the level has fallen, but so have the units in front of it",
			[]step{
				reserve(2, 0), reserve(1, 2*unit), pass(unit), reserve(1, 3*unit), kept(2),
				reserve(1, 4*unit),
			},
		},
		{
			"first the last reservation, then the one before it",
			"the caller behind has cancelled too, so nobody is behind",
			[]step{
				reserve(1, 0), reserve(1, unit), reserve(1, 2*unit), given(3), given(2),
				reserve(1, unit),
			},
		},
		{
			"first the last but one, then the last",
			"the unused turn stays unused: the last caller gives back only its own place",
			[]step{
				reserve(1, 0), reserve(1, unit), reserve(1, 2*unit), kept(2), given(3),
				reserve(1, 2*unit),
			},
		},
		{
			"twice", "a second Cancel would take out units of the callers in front",
			[]step{reserve(3, 0), reserve(1, 3*unit), given(2), kept(2), reserve(1, 3*unit)},
		},
		{
			"the first turn", "the turn has come at once, so Cancel takes nothing back",
			[]step{reserve(1, 0), kept(1), reserve(1, unit)},
		},
		{
			"a clock that stepped back", "neither the bucket's time nor the ceiling goes back with the clock",
			[]step{
				reserve(1, 0), pass(-time.Minute), reserve(1, unit), reserve(1, 2*unit), kept(2),
				given(3), pass(time.Minute), reserve(1, 2*unit),
			},
		},
		{
			"a clock that was an hour ahead and was set right",
			"a ceiling that rose with the clock would give the second place twice",
			[]step{
				pass(time.Hour), reserve(4, time.Hour), reserve(2, time.Hour+4*unit),
				reserve(1, time.Hour+6*unit), pass(-time.Hour), kept(2), reserve(1, 7*unit),
			},
		},
	}
	onEachBackend(t, func(t *testing.T, s store.Store, clock *brimtest.Clock) {
		sh := shaper(t, s, 0)
		for _, test := range tests {
			t.Run(test.name, func(t *testing.T) {
				clock.Set(start)
				var made []*brim.Reservation
				for i, step := range test.steps {
					switch {
					case step.reserve > 0:
						r, err := sh.Reserve(t.Context(), queue.For(test.name), step.reserve)
						noError(t, err)
						if got := r.Turn().Sub(start).Round(time.Microsecond); !r.State.Accepted || got != step.turn {
							t.Errorf("step %d: turn at %v, want %v: %s", i+1, got, step.turn, test.why)
						}
						made = append(made, r)
					case step.cancel > 0:
						given, err := made[step.cancel-1].Cancel(t.Context())
						if err != nil || given != step.given {
							t.Errorf("step %d: Cancel took it back: %v, %v; want %v: %s",
								i+1, given, err, step.given, test.why)
						}
					default:
						clock.Advance(step.advance)
					}
				}
			})
		}
	})
}

// A call of unknown outcome may have been applied, so Cancel must not try again: a second
// Cancel could take out units of the callers in front.
func TestCancelUnknownOutcome(t *testing.T) {
	var fails error
	cancels := 0
	sh := shaper(t, &asked{Store: inMemory(t), fail: func(_ int64, op store.Op) error {
		if op.Amount >= 0 {
			return nil
		}
		cancels++
		return fails
	}}, 0)
	slow := brim.Limit{Capacity: 10, LeakRate: 0.001}
	var last *brim.Reservation
	for range 3 {
		var err error
		if last, err = sh.Reserve(t.Context(), slow.For("k"), 1); err != nil {
			t.Fatal(err)
		}
	}
	fails = brim.ErrUnavailable
	if given, err := last.Cancel(t.Context()); given || !errors.Is(err, brim.ErrUnavailable) {
		t.Errorf("Cancel: %v, %v; want ErrUnavailable", given, err)
	}
	fails = brim.ErrUnknownOutcome
	if given, err := last.Cancel(t.Context()); given || !errors.Is(err, brim.ErrUnknownOutcome) {
		t.Errorf("Cancel after ErrUnavailable: %v, %v; want another try, which fails with ErrUnknownOutcome",
			given, err)
	}
	fails = nil
	if given, err := last.Cancel(t.Context()); given || err != nil || cancels != 2 {
		t.Errorf("Cancel after ErrUnknownOutcome: %v, %v, %d calls; want no further call", given, err, cancels)
	}
}

// slow is a store whose calls and answers are late.
type slow struct {
	store.Store
	there, back time.Duration
}

func (s slow) Fill(ctx context.Context, op store.Op) (store.State, error) {
	time.Sleep(s.there)
	defer time.Sleep(s.back)
	return s.Store.Fill(ctx, op)
}

func TestWaitGivesBack(t *testing.T) {
	for _, test := range []struct {
		name, why string
		store     func(store.Store) store.Store
		behind    bool
		deadline  time.Duration
		cancel    time.Duration
		want      error
		took      time.Duration
		level     float64 // in the bucket when Wait returns
	}{
		{
			name: "cancelled", why: "nobody is behind, so the place is free again",
			cancel: 2 * time.Second, want: context.Canceled, took: 2 * time.Second, level: 3,
		},
		{
			name: "cancelled with somebody behind", why: "the turn passes unused", behind: true,
			cancel: 2 * time.Second, want: context.Canceled, took: 2 * time.Second, level: 5,
		},
		{
			name: "the answer came late", why: "the turn is after the deadline, so there is no use in waiting",
			store:    func(s store.Store) store.Store { return slow{s, 0, time.Second} },
			deadline: 5 * time.Second, want: context.DeadlineExceeded, took: 2 * time.Second, level: 3,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := inMemory(t)
				bucket := tens.For("k")
				must(t)(brim.New(s, nil).TryFillup(t.Context(), bucket, 5))
				used := s
				if test.store != nil {
					used = test.store(s)
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if test.deadline > 0 {
					ctx, cancel = context.WithTimeout(ctx, test.deadline)
					defer cancel()
				} else {
					time.AfterFunc(test.cancel, cancel)
				}
				var wg sync.WaitGroup
				began := time.Now()
				wg.Go(func() {
					_, err := shaper(t, used, 0).Wait(ctx, bucket, 1)
					if !errors.Is(err, test.want) || errors.Is(err, brim.ErrUnknownOutcome) {
						t.Errorf("got %v; want %v", err, test.want)
					}
					if took := time.Since(began); took != test.took {
						t.Errorf("returned after %v; want %v", took, test.took)
					}
					if st := must(t)(brim.New(s, nil).State(t.Context(), bucket)); st.Level != test.level {
						t.Errorf("level %v; want %v: %s", st.Level, test.level, test.why)
					}
				})
				synctest.Wait()
				if test.behind {
					if _, err := shaper(t, s, 0).Reserve(t.Context(), bucket, 1); err != nil {
						t.Error(err)
					}
				}
				wg.Wait()
			})
		})
	}
}

// TestGivingUp cancels callers at any moment, also in the middle of a call. They must leave no
// connection in use and no goroutine, and no call may be reported as not applied if it was
// applied.
func TestGivingUp(t *testing.T) {
	t.Run("postgres", func(t *testing.T) {
		pool := pgtest.Pool(t)
		schema := migrated(t)
		before := goleak.IgnoreCurrent()
		s, err := postgres.New(pool, &postgres.Options{Schema: schema})
		noError(t, err)
		testGivingUp(t, s, func() int { return int(pool.Stat().AcquiredConns()) })
		pool.Close()
		goleak.VerifyNone(t, before)
	})
	t.Run("redis", func(t *testing.T) {
		client := redistest.Client(t)
		prefix := redistest.Prefix(t, client)
		before := goleak.IgnoreCurrent()
		s, err := redisstore.New(client, &redisstore.Options{Prefix: prefix})
		noError(t, err)
		testGivingUp(t, s, func() int {
			stats := client.PoolStats()
			return int(stats.TotalConns) - int(stats.IdleConns)
		})
		goleak.VerifyNone(t, before)
	})
}

// testGivingUp closes the store. inUse returns the number of connections that are in use.
func testGivingUp(t *testing.T, s store.Store, inUse func() int) {
	sh, lim := shaper(t, s, 0), brim.New(s, nil)
	slow := brim.Limit{Capacity: 1000, LeakRate: 1e-6} // the leak during the test is below 0.001 units
	reserved, waited := slow.For("reserved"), slow.For("waited")
	must(t)(lim.TryFillup(t.Context(), waited, 1))
	var wg sync.WaitGroup
	var in, unknown atomic.Int64
	for i := range 60 {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Duration(i)*200*time.Microsecond, cancel)
		wg.Go(func() {
			r, err := sh.Reserve(ctx, reserved, 1)
			switch {
			case errors.Is(err, brim.ErrUnknownOutcome):
				unknown.Add(1)
			case err == nil && r.State.Accepted:
				in.Add(1)
			case !errors.Is(err, context.Canceled):
				t.Errorf("Reserve: %+v, %v", r, err)
			}
		})
		wg.Go(func() {
			if st, err := sh.Wait(ctx, waited, 1); !errors.Is(err, context.Canceled) {
				t.Errorf("Wait: %+v, %v; want context.Canceled, because no turn comes for days", st, err)
			}
		})
	}
	wg.Wait()
	level := must(t)(lim.State(t.Context(), reserved)).Level
	if least, most := float64(in.Load()), float64(in.Load()+unknown.Load()); level < least-0.001 || level > most {
		t.Errorf("level %v; want %v to %v, the accepted calls and those of unknown outcome", level, least, most)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	for deadline := time.Now().Add(10 * time.Second); inUse() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d connections are still in use 10 s after Close", inUse())
		}
	}
}
