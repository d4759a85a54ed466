package migrations

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/golang-migrate/migrate/v4/database"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
)

// session is one connection of the caller's pool that a migration has for itself. It ends with the migration, and with it
// the advisory lock and the settings that were made on it, so nothing of them gets back into the pool.
type session struct {
	db        *sql.DB
	connector *onceConnector
	conn      *pgx.Conn
	interrupt func() bool
	done      chan struct{} // closed when the interruption has run
}

// onceConnector connects once. database/sql replaces a connection that broke by another, which would go on without our lock.
type onceConnector struct {
	driver.Connector
	used atomic.Bool
	got  *stdlib.Conn // set before the first sql.DB.Conn returns
}

var errConnectionLost = errors.New("the connection was lost")

func (c *onceConnector) Connect(ctx context.Context) (driver.Conn, error) {
	if !c.used.CompareAndSwap(false, true) {
		return nil, errConnectionLost
	}
	dc, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	conn, ok := dc.(*stdlib.Conn)
	if !ok {
		return nil, errors.Join(fmt.Errorf("pgx gave a %T, not a *stdlib.Conn", dc), dc.Close())
	}
	c.got = conn
	return conn, nil
}

// openSession takes a connection out of the pool. Whatever happens later, the session must be closed.
func openSession(ctx context.Context, pool *pgxpool.Pool) (*session, error) {
	s := &session{connector: &onceConnector{Connector: stdlib.GetPoolConnector(pool)}, done: make(chan struct{})}
	s.db = sql.OpenDB(s.connector)
	s.db.SetMaxOpenConns(1)
	c, err := s.db.Conn(ctx)
	if err != nil {
		return nil, errors.Join(err, s.db.Close())
	}
	s.conn = s.connector.got.Conn()
	// Back to idle in s.db, not in the pool: golang-migrate takes it from there, and finds it locked already.
	if err := c.Close(); err != nil {
		s.close()
		return nil, err
	}
	// golang-migrate has no context. The server is asked to stop, and has a second to answer: of a connection that is just
	// dropped it learns only when its statement ends, and until then it waits for tables and keeps our lock.
	s.interrupt = context.AfterFunc(ctx, func() {
		defer close(s.done)
		stop, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = s.conn.PgConn().CancelRequest(stop)                             // what it does not stop, the next line does
		_ = s.conn.PgConn().Conn().SetDeadline(time.Now().Add(time.Second)) // fails only on a connection that is closed
	})
	return s, nil
}

// close ends the session and gives its place in the pool back, also where golang-migrate has kept the connection.
func (s *session) close() {
	if s.interrupt != nil && !s.interrupt() {
		<-s.done
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	// The outcome is known by now; a connection that cannot be closed politely is closed all the same.
	_ = s.conn.Close(ctx)
	_ = s.db.Close()
	_ = s.connector.got.Close()
}

// prepare sets how long statements of the session may wait and run. A timeout that a role has for its queries is not meant
// for migrations.
func (s *session) prepare(ctx context.Context, p plan) error {
	_, err := s.conn.Exec(ctx, `SELECT set_config('statement_timeout', '0', false), set_config('lock_timeout', $1, false)`,
		strconv.FormatInt(p.lockTimeout.Milliseconds(), 10))
	return err
}

// lock takes golang-migrate's own advisory lock, which it waits for without end: taken here first, with a deadline, it is
// granted to the same session again at once. Whoever runs golang-migrate on the same tables is excluded as well.
func (s *session) lock(ctx context.Context, p plan) (dbname string, err error) {
	if err := s.conn.QueryRow(ctx, `SELECT current_database()`).Scan(&dbname); err != nil {
		return "", err
	}
	id, err := database.GenerateAdvisoryLockId(dbname, p.Schema(), p.Versions())
	if err != nil {
		return "", err
	}
	key, err := strconv.ParseInt(id, 10, 64)
	if err != nil {
		return "", err
	}
	deadline := time.NewTimer(p.lockTimeout)
	defer deadline.Stop()
	for pause, late := 5*time.Millisecond, false; ; pause = min(2*pause, 250*time.Millisecond) {
		var got bool
		if err := s.conn.QueryRow(ctx, `SELECT pg_try_advisory_lock($1)`, key).Scan(&got); err != nil || got {
			return dbname, err
		}
		if late {
			return "", fmt.Errorf("%w for %v%s; let it finish, or end it with pg_terminate_backend and run this again; "+
				"if a pooler in transaction mode is between, connect directly or apply the output of \"brim migrate sql\"",
				ErrLocked, p.lockTimeout, s.holder(ctx, key))
		}
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-deadline.C:
			late = true
		case <-time.After(pause/2 + rand.N(pause)):
		}
	}
}

// holder says which server process has the advisory lock, if that can be found out.
func (s *session) holder(ctx context.Context, key int64) string {
	var pid int64
	err := s.conn.QueryRow(ctx, `
		SELECT pid FROM pg_locks
		WHERE locktype = 'advisory' AND granted AND classid::bigint = $1::bigint >> 32 AND objid::bigint = $1::bigint & 4294967295
		  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
		LIMIT 1`, key).Scan(&pid)
	if err != nil {
		return "" // the lock's error is the one to report
	}
	return fmt.Sprintf(" (server process %d)", pid)
}
