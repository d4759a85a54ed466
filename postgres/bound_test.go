package postgres_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/store"
)

func storedTime(t *testing.T, pool *pgxpool.Pool, schema string) (at time.Time, err error) {
	err = pool.QueryRow(t.Context(), "SELECT atime FROM "+table(t, schema)+" WHERE key = 'hot'").Scan(&at)
	return at, err
}

// A bucket under 64 writers never lets more through than it holds and leaks, nearly as much as that, and its time does not go
// back: a waiter's clock is older than what the holder of the row lock wrote, and units would leak twice (trap 4).
//
// Here real time passes, because the clock under test is the server's.
func TestBoundUnderLoad(t *testing.T) {
	const capacity, rate = 100, 1000
	pool := pgtest.Pool(t)
	schema := migrated(t, pool)
	b := store.Limit{Capacity: capacity, LeakRate: rate}.For("hot")
	// One key has one lane in each store: as many statements meet in the server as there are stores.
	crowded := poolAt(t, tune(pgtest.URL(t), "pool_max_conns=16"))
	var stores []*postgres.Store
	for range 16 {
		stores = append(stores, over(t, crowded, postgres.Options{Schema: schema}))
	}
	watch := poolAt(t, tune(pgtest.URL(t), "pool_max_conns=1"))

	var accepted atomic.Int64
	var writers, reader sync.WaitGroup
	stop, stopReader := make(chan struct{}), make(chan struct{})
	// Connections are made before the clock is read, so that the time counts in which fills are possible.
	concurrently(t, 64, func(i int64) error {
		_, err := stores[i%16].Fill(t.Context(), op(steady.For("warm"), 1, store.Clamp))
		return err
	})
	began := scalar[time.Time](t, pool, "SELECT clock_timestamp()")
	for g := range 64 {
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
					accepted.Add(1)
				case st.RetryAfter <= 0:
					t.Errorf("refused with a wait of %v", st.RetryAfter)
				}
				if st.Level > capacity {
					t.Errorf("level %v", st.Level)
				}
			}
		})
	}
	reads := 0
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
				continue // nobody was there yet
			} else if err != nil {
				t.Error(err)
				return
			}
			if at.Before(last) {
				t.Errorf("the stored time went back by %v", last.Sub(at))
			}
			last = at
			reads++
		}
	})
	time.Sleep(5 * time.Second)
	close(stop)
	writers.Wait()
	ended := scalar[time.Time](t, pool, "SELECT clock_timestamp()")
	close(stopReader)
	reader.Wait()

	bound := capacity + rate*ended.Sub(began).Seconds()
	n := float64(accepted.Load())
	t.Logf("accepted %.0f of at most %.0f; the time was read %d times", n, bound, reads)
	if n > bound || n < 0.95*bound {
		t.Errorf("accepted %.0f in %v; want at most %.0f and at least 0.95 of it", n, ended.Sub(began), bound)
	}
	if reads < 100 {
		t.Errorf("the time was read %d times only", reads)
	}
}
