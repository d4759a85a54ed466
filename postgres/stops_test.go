package postgres_test

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/store"
)

// account counts units that callers of one bucket know to be in it, and units of unknown
// outcome.
type account struct{ acked, unknown, heldAcked, heldUnknown atomic.Int64 }

// settle counts one unit by the answer to its call, and fails t if the error says nothing about
// the outcome.
func settle(t *testing.T, st store.State, err error, acked, unknown *atomic.Int64) {
	switch {
	case err == nil && st.Accepted:
		acked.Add(1)
	case err == nil:
		t.Errorf("a fill that fits was refused: %+v", st)
	case errors.Is(err, store.ErrUnknownOutcome):
		unknown.Add(1)
		wantError(t, err, store.ErrUnknownOutcome)
	default: // not applied; a false claim shows as a level that nobody acknowledged
		wantError(t, err, store.ErrUnavailable)
	}
}

// TestImmediateStops stops the server as by a crash, under a load of every kind of write, again
// and again. Every acknowledged unit is in its bucket afterwards, and every unit in it was
// acknowledged or has an unknown outcome. The same store and pool go on when the server is
// back.
func TestImmediateStops(t *testing.T) {
	stops := 20
	if os.Getenv("BRIM_TORTURE") == "1" {
		stops = 200
	}
	server := pgtest.NewServer(t)
	pool := server.Pool(t)
	s := over(t, pool, postgres.Options{Schema: migrateOn(t, pool)})
	// Half of the callers send their statements in another mode, for which the driver words its
	// errors differently.
	plain := poolAt(t, tune(server.URL(), "default_query_exec_mode=exec"))
	stores := []*postgres.Store{s, over(t, plain, postgres.Options{})}

	const keys = 4
	var accounts [keys]account
	var pairs account
	var errs, acks atomic.Int64
	name := func(i int) string { return fmt.Sprintf("%s/%d", secret, i) }
	work := func(worker int, down chan struct{}) {
		s, a, b := stores[worker/keys%2], &accounts[worker%keys], steady.For(name(worker%keys))
		for n := worker; ; n++ {
			select {
			case <-down:
				return
			default:
			}
			var err error
			var st store.State
			switch n % 5 {
			case 0, 1:
				st, err = s.Fill(t.Context(), op(b, 1, store.IfFits))
				settle(t, st, err, &a.acked, &a.unknown)
			case 2:
				st, err = s.Fill(t.Context(), op(b, 1, store.Clamp))
				settle(t, st, err, &a.acked, &a.unknown)
			case 3:
				st, err = s.Fill(t.Context(), store.Op{Bucket: b, Hold: 1})
				settle(t, st, err, &a.heldAcked, &a.heldUnknown)
			case 4:
				var res []store.Result
				res, err = s.Apply(t.Context(), store.Txn{op(steady.For("one"), 1, store.IfFits), op(steady.For("two"), 1, store.IfFits)})
				if err == nil {
					st = store.State{Accepted: res[0].Accepted}
				}
				settle(t, st, err, &pairs.acked, &pairs.unknown)
			}
			if err == nil {
				acks.Add(1)
				continue
			}
			errs.Add(1)
			time.Sleep(time.Millisecond) // a server that is down answers at once
		}
	}

	for stop := range stops {
		down := make(chan struct{})
		var wg sync.WaitGroup
		before := acks.Load()
		for worker := range 16 {
			wg.Go(func() { work(worker, down) })
		}
		until(t, "the load to run", func() bool { return acks.Load() >= before+int64(50+37*stop%200) })
		if err := server.Stop(true); err != nil {
			t.Fatal(err)
		}
		close(down)
		wg.Wait()
		if err := server.Start(); err != nil {
			t.Fatal(err)
		}
		stored := func(key string) (st store.State) {
			until(t, "the store to recover", func() bool {
				states, err := s.Read(t.Context(), store.Bucket{Key: key})
				if err == nil {
					st = states[0]
				}
				return err == nil
			})
			return st
		}
		within := func(name string, got float64, acked, unknown *atomic.Int64) {
			if low, high := acked.Load(), acked.Load()+unknown.Load(); int64(got) < low || int64(got) > high {
				t.Errorf("stop %d: %s is %v; %d was acknowledged, and %d at most could be applied", stop, name, got, low, high)
			}
		}
		for i := range accounts {
			st := stored(name(i))
			within("the level", st.Level, &accounts[i].acked, &accounts[i].unknown)
			within("the held amount", st.Held, &accounts[i].heldAcked, &accounts[i].heldUnknown)
		}
		one, two := stored("one").Level, stored("two").Level
		within("a pair's level", one, &pairs.acked, &pairs.unknown)
		if one != two {
			t.Errorf("stop %d: levels %v and %v of two buckets that are only filled together", stop, one, two)
		}
	}
	clean(t, pool)
	clean(t, plain)
	t.Logf("%d acknowledged, %d errors in %d stops", acks.Load(), errs.Load(), stops)
	if errs.Load() < int64(stops) {
		t.Errorf("only %d calls were hit by %d stops", errs.Load(), stops)
	}
}
