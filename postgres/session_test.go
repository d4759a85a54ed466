package postgres_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/store"
)

// questions counts the statements that ask for the settings of a session.
type questions struct {
	sent
	n atomic.Int64
}

func (q *questions) TraceQueryStart(ctx context.Context, _ *pgx.Conn, d pgx.TraceQueryStartData) context.Context {
	if strings.Contains(d.SQL, "brim:session") {
		q.n.Add(1)
	}
	return ctx
}

// TestSessionIsAskedOnce makes calls of every kind, alone and in transactions. A store asks once
// for each connection, whatever the call is and however many stores share the pool.
func TestSessionIsAskedOnce(t *testing.T) {
	q := &questions{}
	pool := pgtest.PoolAt(t, pgtest.With(t, "pool_max_conns=1"), func(c *pgxpool.Config) { c.ConnConfig.Tracer = q })
	schema := migrated(t)
	every := func(s store.Store, within bool) {
		t.Helper()
		for name, call := range calls(s, steady.For(secret)) {
			if err := call(t.Context()); err != nil && (name != "prune" || !within) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	for range 3 {
		s := over(t, pool, postgres.Options{Schema: schema})
		every(s, false)
		for _, join := range ways {
			in := join(t, &charges{pool: pool, schema: schema, s: s}, pgx.ReadCommitted)
			every(in, true)
			in.end(t, true)
		}
	}
	if n := q.n.Load(); n != 1 {
		t.Errorf("the store asked for the settings of one connection %d times", n)
	}
}

// TestUnfitSessions decides in transactions whose sessions would give one name two buckets, or let
// a stranger's operators decide. Nothing is applied, and the connection is the application's, so it
// stays open.
func TestUnfitSessions(t *testing.T) {
	schema := migrated(t)
	for _, settings := range []string{"client_encoding=LATIN1", "search_path=public,pg_catalog"} {
		pool := pgtest.PoolAt(t, pgtest.With(t, settings))
		for way, join := range ways {
			t.Run(settings+", "+way, func(t *testing.T) {
				in := join(t, &charges{pool: pool, schema: schema, s: over(t, pool, postgres.Options{Schema: schema})}, pgx.ReadCommitted)
				for range 2 {
					name, _, _ := strings.Cut(settings, "=")
					_, err := in.Fill(t.Context(), op(steady.For("Zoë"), 1, store.IfFits))
					wantError(t, err, store.ErrMisconfigured, name)
				}
				if err := in.exec("SELECT 1"); err != nil {
					t.Errorf("the application's next statement: %v", err)
				}
			})
		}
	}
	if n := scalar[int](t, pgtest.Pool(t), "SELECT count(*) FROM "+table(t, schema)); n != 0 {
		t.Errorf("%d rows", n)
	}
}

// TestTemporaryTablesAreFit has temporary tables, whose schema the server searches first.
func TestTemporaryTablesAreFit(t *testing.T) {
	pool := pgtest.PoolAt(t, pgtest.With(t, "pool_max_conns=1&search_path=pg_temp,pg_catalog,public"))
	execute(t, pool, "CREATE TEMPORARY TABLE own (n int)")
	fill(t, over(t, pool, postgres.Options{Schema: migrated(t)}), op(steady.For("a"), 1, store.IfFits))
}
