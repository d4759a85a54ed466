package pgtest

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// patience is how long the end of t may wait for connections. It takes 15 s to close one that is
// cut. A test that has failed may have left one checked out, which nobody gives back.
func patience(t testing.TB) time.Duration {
	if t.Failed() {
		return 3 * time.Second
	}
	return 30 * time.Second
}

// sessions are those that a pool has opened.
type sessions struct {
	mu   sync.Mutex
	pids []uint32
}

// track has the pools of a configuration tell their sessions.
func track(config *pgxpool.Config) *sessions {
	var s sessions
	after := config.AfterConnect
	config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		s.mu.Lock()
		s.pids = append(s.pids, conn.PgConn().PID())
		s.mu.Unlock()
		if after == nil {
			return nil
		}
		return after(ctx, conn)
	}
	return &s
}

// close closes the pool. A test that ended in t.Fatal may have left a connection checked out, for
// which Close waits for ever. So close waits no longer than the bound, and then tells the last
// statement of such sessions and ends them: their locks would hold up the end of other tests.
func (s *sessions) close(t testing.TB, pool *pgxpool.Pool, bound time.Duration) {
	t.Helper()
	closed := make(chan struct{})
	go func() {
		pool.Close()
		close(closed)
	}()
	select {
	case <-closed:
		return
	case <-time.After(bound):
	}
	last, err := s.end(pool.Config().ConnConfig)
	if err != nil {
		last = append(last, "unknown: "+err.Error())
	}
	t.Errorf("pgtest: connections still checked out %v after the end of the test: %d; their last statements:\n%s",
		bound, pool.Stat().AcquiredConns(), strings.Join(last, "\n"))
}

// end ends the sessions that are left and returns the state and the last statement of each.
func (s *sessions) end(config *pgx.ConnConfig) (last []string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	config.RuntimeParams = nil // a role, for instance, may end no session
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close(ctx) }()
	s.mu.Lock()
	defer s.mu.Unlock()
	rows, err := conn.Query(ctx, `SELECT format('%s: %s', state, query) FROM pg_stat_activity
		WHERE pid = ANY($1) AND pg_terminate_backend(pid)`, s.pids)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}
