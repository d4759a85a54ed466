package postgres_test

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/internal/seed"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/store"
)

func storedTime(t *testing.T, pool *pgxpool.Pool, schema string) (at time.Time, err error) {
	err = pool.QueryRow(t.Context(), "SELECT atime FROM "+table(t, schema)+" WHERE key = 'hot'").Scan(&at)
	return at, err
}

// TestBoundUnderLoad lets 64 writers fill one bucket as fast as they can. The bucket must admit
// exactly the units that it holds and leaks, and its time must not go back. A writer that waits
// for the row lock has read an older clock than the writer before it: if that clock were
// stored, units would leak twice.
//
// Real time passes, because the clock under test is the server's. On a busy machine the writers
// may pause long enough for the bucket to leak empty. An empty bucket leaks nothing, so the
// test adds up the units that such pauses cost.
func TestBoundUnderLoad(t *testing.T) {
	const capacity, rate = 100, 1000
	pool := pgtest.Pool(t)
	schema := migrated(t)
	b := store.Limit{Capacity: capacity, LeakRate: rate}.For("hot")
	// One key has one lane in each store, so as many statements meet in the server as there are
	// stores.
	crowded := pgtest.PoolAt(t, pgtest.With(t, "pool_max_conns=16"))
	var stores []*postgres.Store
	for range 16 {
		stores = append(stores, over(t, crowded, postgres.Options{Schema: schema}))
	}
	watch := pgtest.PoolAt(t, pgtest.With(t, "pool_max_conns=1"))

	var writers, reader sync.WaitGroup
	stop, stopReader := make(chan struct{}), make(chan struct{})
	// The pool connects before the test reads the clock, so that only the time counts in which
	// fills are possible.
	concurrently(t, 64, func(i int64) error {
		_, err := stores[i%16].Fill(t.Context(), op(steady.For("warm"), 1, store.Clamp))
		return err
	})
	began := scalar[time.Time](t, pool, "SELECT clock_timestamp()")
	var accepted, refused [64][]store.State
	for g := range accepted {
		s := stores[g%len(stores)]
		writers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				st, err := s.Fill(t.Context(), op(b, 1, store.IfFits))
				switch {
				case err != nil:
					t.Error(err)
					return
				case st.Accepted:
					accepted[g] = append(accepted[g], st)
				default:
					refused[g] = append(refused[g], st)
				}
			}
		})
	}
	var reads atomic.Int64
	reader.Go(func() {
		var last time.Time
		for {
			select {
			case <-stopReader:
				return
			default:
			}
			at, err := storedTime(t, watch, schema)
			if errors.Is(err, pgx.ErrNoRows) {
				continue // no writer has filled the bucket yet
			} else if err != nil {
				t.Error(err)
				return
			}
			if at.Before(last) {
				t.Errorf("the stored time went back by %v", last.Sub(at))
			}
			last = at
			reads.Add(1)
		}
	})
	time.Sleep(time.Duration(seed.Attempts(2, 30)) * time.Second)
	until(t, "a hundred times to be read", func() bool { return reads.Load() >= 100 || t.Failed() })
	close(stop)
	writers.Wait()
	ended := scalar[time.Time](t, pool, "SELECT clock_timestamp()")
	close(stopReader)
	reader.Wait()

	fills := slices.Concat(accepted[:]...)
	idle := follow(t, fills, b.Limit, began, ended)
	for _, st := range slices.Concat(refused[:]...) {
		if st.RetryAfter <= 0 || st.Level+1 <= capacity {
			t.Fatalf("one unit was refused in %+v; want a full bucket and a wait", st)
		}
	}
	bound := capacity + rate*ended.Sub(began).Seconds()
	n := float64(len(fills))
	t.Logf("accepted %.0f of at most %.0f; %.0f did not leak from an empty bucket; the time was read %d times",
		n, bound, idle, reads.Load())
	if n > bound || n+idle < 0.95*bound {
		t.Errorf("accepted %.0f in %v; want at most %.0f, and with the %.0f that did not leak at least 0.95 of it",
			n, ended.Sub(began), bound, idle)
	}
}

// follow replays the accepted fills of one unit in the order in which the server made them, and
// compares each level with the one before it. It returns the units that would have leaked
// between from and to if the bucket had never been empty.
func follow(t *testing.T, fills []store.State, l store.Limit, from, to time.Time) (idle float64) {
	t.Helper()
	slices.SortFunc(fills, func(a, b store.State) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Level, b.Level))
	})
	level, at := 0.0, from
	for _, st := range fills {
		left := level - l.LeakRate*st.At.Sub(at).Seconds()
		idle += max(0, -left)
		level, at = max(0, left)+1, st.At
		if math.Abs(st.Level-level) > 1e-6 || st.Level > l.Capacity {
			t.Fatalf("a fill at %v answered the level %v; want %v, and %v at most", st.At, st.Level, level, l.Capacity)
		}
	}
	return idle + max(0, l.LeakRate*to.Sub(at).Seconds()-level)
}
