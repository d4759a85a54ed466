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
		{name: "update", sql: "UPDATE %s SET level = 5 WHERE key = 'held'", commit: true, after: 6},
		{name: "delete", sql: "DELETE FROM %s WHERE key = 'held'", commit: true, after: 1},
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
			several(t, c.hold)
		})
	}
}

// several runs a case until it sees no trouble, and at most five times. A machine that stands still
// for longer than callers stay beyond their deadlines leaves outcomes unknown. It does not do so
// each time.
func several(t *testing.T, run func(*testing.T) (trouble string)) {
	t.Helper()
	for attempt := 1; ; attempt++ {
		trouble := run(t)
		if trouble == "" || t.Failed() {
			return
		}
		if attempt == 5 {
			t.Fatalf("%s, in each of %d runs", trouble, attempt)
		}
	}
}

// hold runs a case on a table of its own. trouble may come from a slow machine.
func (c stranger) hold(t *testing.T) (trouble string) {
	admin := pgtest.Pool(t)
	schema := migrated(t)
	var timeouts *atomic.Int64
	pool := pgtest.PoolAt(t, pgtest.With(t, "pool_max_conns=4"), func(c *pgxpool.Config) {
		timeouts = pgtest.CountLockTimeouts(c.ConnConfig)
	})
	s := over(t, pool, postgres.Options{Schema: schema, StatementTimeout: 20 * time.Second})
	if !c.missing {
		fill(t, s, op(steady.For("held"), 1, store.IfFits))
	}
	for n := range 100 {
		fill(t, s, op(steady.For(fmt.Sprint("other", n)), 1, store.IfFits))
	}
	others := func(ctx context.Context) {
		for calls := 0; ctx.Err() == nil; calls++ {
			one, two := fmt.Sprint("other", calls%50), fmt.Sprint("other", 50+calls%50)
			fill(t, s, op(steady.For(one), 1, store.IfFits))
			fill(t, s, store.Op{Bucket: steady.For(one), Hold: 1})
			if _, err := s.Apply(t.Context(), store.Txn{
				op(steady.For(one), 1, store.IfFits), op(steady.For(two), 1, store.IfFits),
			}); err != nil {
				t.Fatal(err)
			}
		}
	}
	tx, err := admin.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }()
	if _, err := tx.Exec(t.Context(), fmt.Sprintf(c.sql, table(t, schema))); err != nil {
		t.Fatal(err)
	}

	late, cancel := context.WithTimeout(t.Context(), 2*time.Second)
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
	others(late) // they go on while the deadlines pass
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
	held := stateOf(t, s, "held")
	within("level", held.Level, c.after, c.after+units)
	within("held", held.Held, 0, maybe["hold"])
	within("level of the free bucket", stateOf(t, s, "free").Level, 0, maybe["several"])
	clean(t, pool)
	if len(maybe) > 0 {
		return fmt.Sprintf("the outcomes of %d late calls were unknown, want none: nothing was applied", len(maybe))
	}
	// For each of the five calls, a flush waits for the row once, and so does the slow lane, and
	// again where a slow machine has let it stand idle. An insertion that others have begun is
	// seen by waiting alone.
	if waits, most := timeouts.Load(), int64(2*5); !c.missing && waits > most {
		return fmt.Sprintf("%d statements waited for the row, want at most %d", waits, most)
	}
	return ""
}

// many is a number of buckets, some of which a stranger locks.
type many struct {
	name       string
	keys, held int
	pulse      time.Duration // how long the locks come and go; 0: they stay
}

// TestStrangerHoldsMany locks several rows, or all of them, under callers that come back when they
// are answered. No unit is lost or made, however the calls end, and callers of other rows go on.
func TestStrangerHoldsMany(t *testing.T) {
	leakFree(t)
	for _, c := range []many{
		{"one of many", 200, 1, 0},
		{"half", 40, 20, 0},
		{"all", 20, 20, 0},
		{"come and go", 50, 10, 5 * time.Millisecond},
	} {
		t.Run(c.name, c.run)
	}
}

// counts are the calls on each bucket whose unit went in, or may have gone in.
type counts struct{ sure, maybe []atomic.Int64 }

func (many) key(n int) string { return fmt.Sprintf("key%03d", n) }

// run runs a case on a table of its own.
func (c many) run(t *testing.T) {
	admin := pgtest.Pool(t)
	schema := migrated(t)
	var timeouts *atomic.Int64
	pool := pgtest.PoolAt(t, pgtest.With(t, "pool_max_conns=4"), func(c *pgxpool.Config) {
		timeouts = pgtest.CountLockTimeouts(c.ConnConfig)
	})
	s := over(t, pool, postgres.Options{Schema: schema})
	for n := range c.keys {
		fill(t, s, op(steady.For(c.key(n)), 1, store.IfFits))
	}
	all := counts{make([]atomic.Int64, c.keys), make([]atomic.Int64, c.keys)}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	release := holdRows(t, admin, schema, c.key(c.held), ctx, c.pulse)
	others, calls := c.load(t, ctx, s, all)
	waits := timeouts.Load()
	release()
	for n := range c.keys {
		got := stateOf(t, s, c.key(n)).Level
		least := float64(1 + all.sure[n].Load())
		if most := least + float64(all.maybe[n].Load()); got < least || got > most {
			t.Errorf("bucket %d holds %v, want %v to %v", n, got, least, most)
		}
	}
	// Every bucket is served again.
	for n := range c.keys {
		fill(t, s, op(steady.For(c.key(n)), 1, store.IfFits))
	}
	clean(t, pool)
	t.Logf("%d calls of others accepted; %d calls for held rows, and %d statements that waited for one", others, calls, waits)
	// A flush that waits holds up the calls of others in it. One that waited has found the row
	// held.
	if waits > calls/4 {
		t.Errorf("%d calls for held rows let %d statements wait for one, want one for every fourth call at most", calls, waits)
	}
}

// load has 32 callers of the buckets that nobody holds, and 8 of the held ones if rows are held,
// until ctx ends. It returns the number of calls on the others that were accepted.
func (c many) load(t *testing.T, ctx context.Context, s *postgres.Store, all counts) (others, calls int64) {
	t.Helper()
	var accepted, of atomic.Int64
	var wg sync.WaitGroup
	call := func(n int) {
		if n < c.held {
			of.Add(1)
		}
		call, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		st, err := s.Fill(call, op(steady.For(c.key(n)), 1, store.IfFits))
		switch {
		case err == nil && st.Accepted:
			all.sure[n].Add(1)
			if n >= c.held {
				accepted.Add(1)
			}
		case errors.Is(err, store.ErrUnknownOutcome):
			all.maybe[n].Add(1)
		case !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, store.ErrUnavailable):
			t.Errorf("%+v, %v", st, err)
		}
	}
	caller := func(first, from, to int) {
		for n := first; ctx.Err() == nil; n += 7 {
			call(from + n%(to-from))
		}
	}
	for g := range 32 {
		if c.held < c.keys {
			wg.Go(func() { caller(g, c.held, c.keys) })
		}
	}
	for g := range 8 {
		wg.Go(func() { caller(g, 0, c.held) })
	}
	wg.Wait()
	return accepted.Load(), of.Load()
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
	schema := migrated(t)
	pool := pgtest.PoolAt(t, pgtest.URL(t))
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
	somebodyWaits(t, admin, schema)
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
