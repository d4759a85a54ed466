package pgtest

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Planned returns a pool with one connection, with settings such as "a=1&b=2", and a function that
// returns the plans that the server has compiled (JIT). The server compiles a plan that it expects
// to cost a hundredth of the cost from which it does so by default, so that small tables show the
// plans that it would compile over large ones.
func (s *Server) Planned(t testing.TB, application, settings string) (pool *pgxpool.Pool, compiled func() []string) {
	t.Helper()
	var mu sync.Mutex
	var plans []string
	url := s.URL() + "&pool_max_conns=1&application_name=" + application + "&" + settings
	pool = PoolAt(t, url, func(c *pgxpool.Config) {
		c.ConnConfig.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) {
			if strings.Contains(n.Message, "\nJIT:") {
				mu.Lock()
				defer mu.Unlock()
				plans = append(plans, n.Message)
			}
		}
		c.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
			_, err := conn.Exec(ctx, `LOAD 'auto_explain'; SET auto_explain.log_min_duration = 0;
				SET jit_above_cost = 1000; SET client_min_messages = log`)
			return err
		}
	})
	return pool, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return plans
	}
}

// Reported waits until the server has ended all sessions of an application. It has then counted
// their reads and writes; before PostgreSQL 15, a process of its own counts them up to half a
// second later.
func Reported(t testing.TB, pool *pgxpool.Pool, application string) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		var sessions, version int
		const sql = "SELECT count(*), current_setting('server_version_num')::int FROM pg_stat_activity WHERE application_name = $1"
		if err := pool.QueryRow(t.Context(), sql, application).Scan(&sessions, &version); err != nil {
			t.Fatal(err)
		}
		if sessions == 0 {
			if version < 150_000 {
				time.Sleep(time.Second)
			}
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d sessions do not end", sessions)
		}
	}
}

// Flush has the one session of a pool report its reads and writes.
func Flush(t testing.TB, pool *pgxpool.Pool) {
	t.Helper()
	var version int
	if err := pool.QueryRow(t.Context(), "SELECT current_setting('server_version_num')::int").Scan(&version); err != nil {
		t.Fatal(err)
	}
	sql, pause := "SELECT pg_stat_force_next_flush()", time.Duration(0)
	if version < 150_000 { // a session reports, and a process writes, every half second
		sql, pause = "SELECT 1", time.Second
	}
	time.Sleep(pause)
	if _, err := pool.Exec(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
	time.Sleep(pause)
}
