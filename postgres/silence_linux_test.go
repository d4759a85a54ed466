package postgres_test

import (
	"context"
	"io"
	"net"
	"reflect"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/store"
)

// silence is the bound of the calls to a server that does not answer.
const silence = 2 * time.Second

// methods are the methods behind the names of calls.
var methods = map[string]string{
	"ping":  "Ping",
	"apply": "Apply", "ask for several": "Apply", "read": "Read", "visit": "Visit", "delete": "Delete", "prune": "Prune",
	"size": "Size", "update": "Update",
}

// everyCall returns the public calls of a store and the function Check.
func everyCall(pool *pgxpool.Pool, s *postgres.Store, schema string) map[string]func(context.Context) error {
	all := calls(s, steady.For("k"))
	all["ping"] = func(ctx context.Context) error { return s.Ping(ctx) }
	all["size"] = func(ctx context.Context) error { _, err := s.Size(ctx); return err }
	all["update"] = func(ctx context.Context) error {
		return s.Update(ctx, func(in store.Store) error {
			_, err := in.Fill(ctx, op(steady.For("k"), 1, store.IfFits))
			return err
		})
	}
	all["check"] = func(ctx context.Context) error {
		_, err := postgres.Check(ctx, pool, &postgres.Options{Schema: schema, StatementTimeout: silence})
		return err
	}
	return all
}

// inTransactions are the calls that apart also makes within transactions: one for each method.
var inTransactions = []string{"try", "apply", "read", "visit", "delete"}

// TestEveryCallIsNamed finds a method that everyCall lacks.
func TestEveryCallIsNamed(t *testing.T) {
	named := map[string]bool{}
	for name := range everyCall(nil, nil, "") {
		method := methods[name]
		if method == "" {
			method = "Fill"
		}
		named[method] = true
	}
	all := reflect.TypeFor[*postgres.Store]()
	for i := range all.NumMethod() {
		m := all.Method(i)
		if m.Type.NumIn() > 1 && m.Type.In(1) == reflect.TypeFor[context.Context]() && !named[m.Name] {
			t.Errorf("everyCall has no call of %s, so nothing tests its bound", m.Name)
		}
	}
}

// apart returns every call, each over a pool of its own, so that none waits for another. Over a
// server that lives, it warms the pool, and adds the calls within transactions that have begun.
func apart(t *testing.T, url, schema string, lives bool) map[string]func(context.Context) error {
	t.Helper()
	all := make(map[string]func(context.Context) error)
	over := func() (*pgxpool.Pool, *postgres.Store) {
		pool := pgtest.PoolAt(t, tune(url, "pool_max_conns=2"))
		s := over(t, pool, postgres.Options{Schema: schema, StatementTimeout: silence})
		if lives {
			fill(t, s, op(steady.For("k"), 1, store.IfFits))
		}
		return pool, s
	}
	for name := range everyCall(nil, nil, "") {
		pool, s := over()
		all[name] = everyCall(pool, s, schema)[name]
		if !lives || !slices.Contains(inTransactions, name) {
			continue
		}
		tx, err := pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		all["With: "+name] = calls(s.With(tx), steady.For("k"))[name]
		pool, s = over()
		db := stdlib.OpenDBFromPool(pool)
		sqlTx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		all["WithSQL: "+name] = calls(s.WithSQL(sqlTx), steady.For("k"))[name]
		t.Cleanup(func() {
			_ = tx.Rollback(context.Background())
			_ = sqlTx.Rollback()
			_ = db.Close()
		})
	}
	return all
}

// timed makes the calls at the same time. The outcome of a call may be unknown only if it writes,
// and its server has got the statement.
func timed(t *testing.T, all map[string]func(context.Context) error, sent bool) {
	t.Helper()
	pgtest.Timed(t, silence, all, func(name string) bool {
		return sent && !strings.Contains(name, ": ") && !slices.Contains(append(slices.Clone(looks), "size", "check"), name)
	})
}

// swallow returns the address of a server that accepts connections and never answers.
func swallow(t *testing.T) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var clients sync.WaitGroup
	clients.Go(func() {
		for conn, err := l.Accept(); err == nil; conn, err = l.Accept() {
			clients.Go(func() {
				_, _ = io.Copy(io.Discard, conn)
				_ = conn.Close()
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		clients.Wait()
	})
	return l.Addr().String()
}

// TestServerThatNeverAnswers makes every call over a server that accepts connections and says
// nothing.
func TestServerThatNeverAnswers(t *testing.T) {
	timed(t, apart(t, "postgres://postgres@"+swallow(t)+"/postgres?sslmode=disable", "", false), false)
}

// TestServerThatStops makes every call over connections to a server whose processes stand still.
func TestServerThatStops(t *testing.T) {
	server := pgtest.NewServer(t)
	all := apart(t, server.URL(), migrateOn(t, server.Pool(t)), true)
	t.Cleanup(func() { _ = server.Signal(syscall.SIGCONT) }) // before the pools close
	if err := server.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	timed(t, all, true)
}

// TestTableLockedByAStranger makes every call while a stranger has the table to himself. Then
// lock_timeout, which a statement sets for itself, does not count: the statement waits for the
// table first. The server answers that it has cancelled the statement: nothing was applied.
func TestTableLockedByAStranger(t *testing.T) {
	admin := pgtest.Pool(t)
	schema := migrated(t)
	all := apart(t, pgtest.URL(t), schema, true)
	units := func() float64 {
		return scalar[float64](t, admin, "SELECT sum(level + held) FROM "+table(t, schema))
	}
	before := units()
	release := lockTable(t, admin, schema)
	timed(t, all, false)
	release()
	if after := units(); after != before {
		t.Errorf("the buckets hold %v units, and held %v before", after, before)
	}
}
