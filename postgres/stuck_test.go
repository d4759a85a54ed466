package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/store"
)

// stranger is a session that holds locks, as a test asks it to.
type stranger struct {
	name string
	// sql is the statement of a transaction that stays open until the test ends it.
	sql string
	// commit ends the transaction by a commit instead of a rollback.
	commit bool
	// after is the level of the bucket "held" when the session has ended and one unit went in.
	after float64
	// missing says that the bucket has no row before.
	missing bool
}

// TestStranger has another session hold a bucket in all ways that PostgreSQL knows. Callers of
// other buckets go on, also with several buckets in one call. The callers of the held bucket get
// an answer when the session ends, or by their deadline.
func TestStranger(t *testing.T) {
	leakFree(t)
	for _, c := range []stranger{
		{name: "lock", sql: "SELECT FROM %s WHERE key = 'held' FOR UPDATE", after: 2},
		{name: "key share lock", sql: "SELECT FROM %s WHERE key = 'held' FOR SHARE", after: 2},
		{name: "update", sql: "UPDATE %s SET level = 5 WHERE key = 'held'", commit: true, after: 6},
		{name: "delete", sql: "DELETE FROM %s WHERE key = 'held'", commit: true, after: 1},
		{name: "delete rolled back", sql: "DELETE FROM %s WHERE key = 'held'", after: 2},
		{
			name: "insert", missing: true, commit: true, after: 8,
			sql: `INSERT INTO %s (key, level, atime, held, capacity, leak_rate)
				VALUES ('held', 7, clock_timestamp(), 0, 1e12, 0)`,
		},
		{
			name: "insert rolled back", missing: true, after: 1,
			sql: `INSERT INTO %s (key, level, atime, held, capacity, leak_rate)
				VALUES ('held', 7, clock_timestamp(), 0, 1e12, 0)`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			// A machine that stands still for longer than the callers stay beyond their deadlines
			// leaves outcomes unknown. It does not stand still each time.
			for attempt := 1; c.hold(t) > 0 && !t.Failed(); attempt++ {
				if attempt == 5 {
					t.Errorf("outcomes were unknown in each of %d runs; want none: nothing was applied", attempt)
				}
			}
		})
	}
}

// hold runs a case on a table of its own. It returns the number of late calls whose outcome is
// unknown.
func (c stranger) hold(t *testing.T) (unknown int) {
	admin := pgtest.Pool(t)
	schema := migrated(t, admin)
	pool := poolAt(t, tune(pgtest.URL(t), "pool_max_conns=8"))
	s := over(t, pool, postgres.Options{Schema: schema, StatementTimeout: 20 * time.Second})
	if !c.missing {
		fill(t, s, op(steady.For("held"), 1, store.IfFits))
	}
	tx, err := admin.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }()
	if _, err := tx.Exec(t.Context(), fmt.Sprintf(c.sql, table(t, schema))); err != nil {
		t.Fatal(err)
	}

	late, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	patient := make(chan store.State, 1)
	go func() {
		st, err := s.Fill(t.Context(), op(steady.For("held"), 1, store.IfFits))
		if err != nil {
			t.Errorf("a patient caller: %v", err)
		}
		patient <- st
	}()
	var mu sync.Mutex
	maybe := map[string]float64{} // by call: 1 if its unit may have been applied
	var wg sync.WaitGroup
	for name, call := range map[string]func() error{
		"try":    func() error { _, err := s.Fill(late, op(steady.For("held"), 1, store.IfFits)); return err },
		"fillup": func() error { _, err := s.Fill(late, op(steady.For("held"), 1, store.Clamp)); return err },
		"hold":   func() error { _, err := s.Fill(late, store.Op{Bucket: steady.For("held"), Hold: 1}); return err },
		"several": func() error {
			_, err := s.Apply(late, store.Txn{op(steady.For("free"), 1, store.IfFits), op(steady.For("held"), 1, store.IfFits)})
			return err
		},
	} {
		wg.Go(func() {
			err := call()
			switch late := errors.Is(err, context.DeadlineExceeded); {
			case late && errors.Is(err, store.ErrUnknownOutcome):
				mu.Lock()
				defer mu.Unlock()
				maybe[name] = 1
			case !late || !errors.Is(err, store.ErrUnavailable):
				t.Errorf("%s by its deadline: %v, want ErrUnavailable and the context's error", name, err)
			}
		})
	}
	// Others go on while the deadlines pass.
	for done, n := late.Done(), 0; done != nil; n++ {
		select {
		case <-done:
			done = nil
		default:
		}
		one, two := fmt.Sprint("other", n%50), fmt.Sprint("other", 50+n%50)
		fill(t, s, op(steady.For(one), 1, store.IfFits))
		fill(t, s, store.Op{Bucket: steady.For(one), Hold: 1})
		if _, err := s.Apply(t.Context(), store.Txn{
			op(steady.For(one), 1, store.IfFits), op(steady.For(two), 1, store.IfFits),
		}); err != nil {
			t.Fatal(err)
		}
	}
	wg.Wait()
	if c.commit {
		err = tx.Commit(t.Context())
	} else {
		err = tx.Rollback(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	within := func(name string, got, least, most float64) {
		if got < least || got > most {
			t.Errorf("%s: %v, want %v to %v: the late calls were not applied", name, got, least, most)
		}
	}
	units := maybe["try"] + maybe["fillup"] + maybe["several"]
	within("level that a patient caller saw", (<-patient).Level, c.after, c.after+units)
	end := stateOf(t, s, "held")
	within("level", end.Level, c.after, c.after+units)
	within("held", end.Held, 0, maybe["hold"])
	within("level of the free bucket", stateOf(t, s, "free").Level, 0, maybe["several"])
	clean(t, pool)
	return len(maybe)
}

// TestStrangerHoldsMany locks several rows, or all of them, under callers that come back when they
// are answered. No unit is lost or made, however the calls end.
func TestStrangerHoldsMany(t *testing.T) {
	leakFree(t)
	for _, c := range []struct {
		name       string
		keys, held int
		pulse      time.Duration // how long the locks come and go; 0: they stay
	}{
		{"one of many", 200, 1, 0},
		{"ten of many", 200, 10, 0},
		{"half", 40, 20, 0},
		{"all", 20, 20, 0},
		{"come and go", 50, 10, 5 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			admin := pgtest.Pool(t)
			schema := migrated(t, admin)
			pool := poolAt(t, tune(pgtest.URL(t), "pool_max_conns=4"))
			s := over(t, pool, postgres.Options{Schema: schema})
			key := func(n int) string { return fmt.Sprintf("key%03d", n) }
			for n := range c.keys {
				fill(t, s, op(steady.For(key(n)), 1, store.IfFits))
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			release := holdRows(t, admin, schema, key(c.held), ctx, c.pulse)
			sure, maybe := make([]atomic.Int64, c.keys), make([]atomic.Int64, c.keys)
			var others atomic.Int64
			var wg sync.WaitGroup
			for g := range 32 {
				wg.Go(func() {
					for n := g; ctx.Err() == nil; n += 7 {
						n %= c.keys
						call, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
						st, err := s.Fill(call, op(steady.For(key(n)), 1, store.IfFits))
						cancel()
						switch {
						case err == nil && st.Accepted:
							sure[n].Add(1)
							if n >= c.held {
								others.Add(1)
							}
						case errors.Is(err, store.ErrUnknownOutcome):
							maybe[n].Add(1)
						case !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, store.ErrUnavailable):
							t.Errorf("%+v, %v", st, err)
						}
					}
				})
			}
			wg.Wait()
			release()
			for n := range c.keys {
				got := stateOf(t, s, key(n)).Level
				least := float64(1 + sure[n].Load())
				if most := least + float64(maybe[n].Load()); got < least || got > most {
					t.Errorf("bucket %d holds %v, want %v to %v", n, got, least, most)
				}
			}
			if others.Load() == 0 && c.held < c.keys {
				t.Error("no other bucket was filled")
			}
			// Every bucket is served again.
			for n := range c.keys {
				fill(t, s, op(steady.For(key(n)), 1, store.IfFits))
			}
			clean(t, pool)
		})
	}
}

// holdRows locks the rows below a key until release, or by turns until ctx ends.
func holdRows(
	t *testing.T, pool *pgxpool.Pool, schema, below string, ctx context.Context, pulse time.Duration,
) (release func()) {
	lock := func() (end func()) {
		tx, err := pool.Begin(context.Background())
		if err == nil {
			_, err = tx.Exec(context.Background(),
				"SELECT FROM "+table(t, schema)+` WHERE key < $1 COLLATE "C" ORDER BY key FOR UPDATE`, below)
		}
		if err != nil {
			t.Error(err)
		}
		return func() { _ = tx.Rollback(context.Background()) }
	}
	if pulse == 0 {
		return lock()
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for tick := time.NewTicker(pulse); ctx.Err() == nil; {
			end := lock()
			<-tick.C
			end()
			<-tick.C
		}
	})
	return wg.Wait
}

// TestCloseWhileCallersWait closes a store whose callers wait for a stranger.
func TestCloseWhileCallersWait(t *testing.T) {
	leakFree(t)
	admin := pgtest.Pool(t)
	schema := migrated(t, admin)
	pool := poolAt(t, pgtest.URL(t))
	s := over(t, pool, postgres.Options{Schema: schema, StatementTimeout: time.Hour})
	fill(t, s, op(steady.For("held"), 1, store.IfFits))
	release := lockRow(t, admin, schema, "held")
	errs := make(chan error, 8)
	for range cap(errs) {
		go func() {
			_, err := s.Fill(context.Background(), op(steady.For("held"), 1, store.IfFits))
			errs <- err
		}()
	}
	waiters(t, admin, schema, 1)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for range cap(errs) {
		if err := <-errs; !errors.Is(err, store.ErrClosed) {
			t.Errorf("%v, want ErrClosed: nothing was applied", err)
		}
	}
	release()
	levelIs(t, over(t, admin, postgres.Options{Schema: schema}), "held", 1)
	clean(t, pool)
}
