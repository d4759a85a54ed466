package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/internal/pgname"
	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/migrations"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/store"
)

// everything makes all calls of a store, also from many goroutines, and checks the answers.
// They must not depend on names, on the mode of execution or on a pooler.
func everything(t *testing.T, s *postgres.Store) {
	t.Helper()
	limit := store.Limit{Capacity: 100}
	var accepted atomic.Int64
	concurrently(t, 400, func(i int64) error {
		st, err := s.Fill(t.Context(), op(limit.For("hot"), 1, store.IfFits))
		if err == nil && st.Accepted {
			accepted.Add(1)
		}
		if err != nil {
			return err
		}
		_, err = s.Fill(t.Context(), op(steady.For(fmt.Sprint("key ", i%10)), 1, store.Mode(i%3)))
		return err
	})
	if accepted.Load() != 100 {
		t.Errorf("%d accepted, want 100", accepted.Load())
	}
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for _, o := range []store.Op{
				{Bucket: limit.For("held"), Hold: 2},
				{Bucket: limit.For("held"), Hold: -2, Amount: 1, Mode: store.Always},
			} {
				if st, err := s.Fill(t.Context(), o); err != nil || !st.Accepted {
					t.Errorf("hold: %+v, %v", st, err)
				}
			}
			res, err := s.Apply(t.Context(), store.Txn{op(limit.For("one"), 7, store.IfFits), op(limit.For("two"), 8, store.IfFits)})
			if err != nil || res[0].Err != nil {
				t.Errorf("apply: %+v, %v", res, err)
			}
		})
	}
	wg.Wait()
	// 12 times 8 is 96, and a thirteenth would make 104. The other pairs went into neither
	// bucket.
	for key, want := range map[string]float64{"hot": 100, "key 3": 40, "held": 16, "one": 84, "two": 96} {
		levelIs(t, s, key, want)
	}
	if n := len(list(t, s, "key ")); n != 10 {
		t.Errorf("visit: %d buckets; want 10", n)
	}
	if bytes, err := s.Size(t.Context()); err != nil || bytes == 0 {
		t.Errorf("size: %d bytes, %v", bytes, err)
	}
	if _, err := s.Prune(t.Context()); err != nil {
		t.Errorf("prune: %v", err)
	}
	if err := s.Delete(t.Context(), "hot", "absent"); err != nil {
		t.Errorf("delete: %v", err)
	}
	levelIs(t, s, "hot", 0)
	err := s.Update(t.Context(), func(in store.Store) error {
		for _, n := range []float64{60, 60} {
			if _, err := in.Fill(t.Context(), op(limit.For("hot"), n, store.IfFits)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Errorf("update: %v", err)
	}
	levelIs(t, s, "hot", 60)
}

// TestOddNames uses every kind of name that PostgreSQL accepts for schemas and tables. The
// store must quote them everywhere.
func TestOddNames(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	unique := pgtest.Schema(t) // for names that no other test has
	for _, c := range []struct{ name, schema, table string }{
		{"quotes", `My "li''mits" `, ` "o'b''c"`},
		{"backslashes, dollars and dots", `a\b$1.c`, `$brim$\.d`},
		{"Unicode", "Grenzwerte für Кран", "桶🪣"},
		{"keywords", "select", "table"},
		{"like placeholders", "{{table}}%s%I", "{{schema}}%L"},
		{"as long as may be", strings.Repeat("s", 63-9), strings.Repeat("t", 48)},
	} {
		t.Run(c.name, func(t *testing.T) {
			schema := c.schema + unique[len(unique)-9:]
			t.Cleanup(func() { execute(t, pool, "DROP SCHEMA IF EXISTS "+pgname.Quote(schema)+" CASCADE") })
			if err := migrations.Up(t.Context(), pool, &migrations.Options{Schema: schema, Table: c.table}); err != nil {
				t.Fatal(err)
			}
			everything(t, over(t, pool, postgres.Options{Schema: schema, Table: c.table}))
			clean(t, pool)
		})
	}
}

// TestOneConnection has one connection for all lanes. No call may wait for a second connection
// while it holds the first.
func TestOneConnection(t *testing.T) {
	pool := pgtest.PoolAt(t, pgtest.With(t, "pool_max_conns=1"))
	everything(t, over(t, pool, postgres.Options{Schema: migrated(t), Lanes: 4, BatchSize: 7}))
	clean(t, pool)
}

// TestTableComesLater makes a store before its table. The store works as soon as the table
// exists.
func TestTableComesLater(t *testing.T) {
	pool := pgtest.Pool(t)
	schema := pgtest.Schema(t)
	s := over(t, pool, postgres.Options{Schema: schema})
	for name, call := range calls(s, steady.For(secret)) {
		if err := call(context.Background()); err == nil {
			t.Errorf("%s works without a table", name)
		}
	}
	migrateTo(t, pool, schema)
	everything(t, s)
	// The table is made anew under connections that have prepared statements for the old one.
	execute(t, pool, "DROP SCHEMA "+schema+" CASCADE")
	migrateTo(t, pool, schema)
	everything(t, s)
	clean(t, pool)
}

// TestNewChecks gives New options that it must refuse with an error.
func TestNewChecks(t *testing.T) {
	pool := pgtest.Pool(t)
	for _, c := range []struct {
		name, word string
		pool       *pgxpool.Pool
		o          *postgres.Options
	}{
		{"no pool", "pool is nil", nil, nil},
		{"negative lanes", "negative", pool, &postgres.Options{Lanes: -1}},
		{"negative batch", "negative", pool, &postgres.Options{BatchSize: -1}},
		{"negative timeout", "negative", pool, &postgres.Options{StatementTimeout: -1}},
		{"negative skew", "negative", pool, &postgres.Options{MaxSkew: -1}},
		{"a name that the server refuses", "pg_", pool, &postgres.Options{Schema: "pg_limits"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := postgres.New(c.pool, c.o)
			if err == nil || s != nil || !strings.Contains(err.Error(), c.word) || !strings.HasPrefix(err.Error(), "postgres: new: ") {
				t.Errorf("New answers %v, %v; want an error with %q", s, err, c.word)
			}
		})
	}
}

// TestHostileSearchPath has a schema on the search_path whose operators and functions fail. A
// schema with a <= for float8 and numeric that were always true could fill every bucket beyond its
// rim.
func TestHostileSearchPath(t *testing.T) {
	hostile := pgtest.Hostile(t)
	pool := pgtest.PoolAt(t, pgtest.With(t, "search_path="+hostile))
	admin := pgtest.Pool(t)
	schema := migrated(t)
	s := over(t, pool, postgres.Options{Schema: schema})
	everything(t, s)
	if got, want := found(t, pool, schema), found(t, admin, schema); got != want {
		t.Errorf("Check finds %q, and %q with the usual search_path", got, want)
	}
	fill(t, s, op(store.Limit{Capacity: 1, LeakRate: 1}.For("empty"), 1, store.IfFits))
	tomorrow := func() time.Time { return time.Now().Add(24 * time.Hour) }
	later := over(t, pool, postgres.Options{Schema: schema, Clock: tomorrow})
	if n, err := later.Prune(t.Context()); err != nil || n != 1 {
		t.Errorf("prune of an empty bucket: %d, %v", n, err)
	}
	// A held row brings in the statements that look for it.
	release := lockRow(t, admin, schema, "one")
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := s.Fill(ctx, op(steady.For("one"), 1, store.IfFits)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a fill of a held row: %v", err)
	}
	release()
	clean(t, pool)
}
