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

// session is a connection of the caller's pool that a migration has for itself. It is closed
// after the migration. The advisory lock and the settings of the session end with it, and do not
// get back into the pool.
type session struct {
	db        *sql.DB
	connector *onceConnector
	conn      *pgx.Conn
	interrupt func() bool
	done      chan struct{} // closed after the interrupt has run
}

// onceConnector connects once. database/sql replaces a broken connection by a new one, which
// would continue without the lock.
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
		return nil, errors.Join(fmt.Errorf("pgx returned a %T, not a *stdlib.Conn", dc), dc.Close())
	}
	c.got = conn
	return conn, nil
}

// openSession takes a connection out of the pool. The caller must close the session.
func openSession(ctx context.Context, pool *pgxpool.Pool) (*session, error) {
	s := &session{connector: &onceConnector{Connector: stdlib.GetPoolConnector(pool)}, done: make(chan struct{})}
	s.db = sql.OpenDB(s.connector)
	s.db.SetMaxOpenConns(1)
	c, err := s.db.Conn(ctx)
	if err != nil {
		return nil, errors.Join(err, s.db.Close())
	}
	s.conn = s.connector.got.Conn()
	// The connection becomes idle in s.db, not in the pool. golang-migrate takes it from s.db,
	// with the lock.
	if err := c.Close(); err != nil {
		s.close()
		return nil, err
	}
	// golang-migrate has no context, so the end of ctx asks the server to stop, and gives it a
	// second to answer. If the connection were just dropped, the server would notice only after
	// the statement, and would wait for tables and keep the lock until then.
	s.interrupt = context.AfterFunc(ctx, func() {
		defer close(s.done)
		stop, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		// If the request fails, the deadline stops the migration. SetDeadline fails only on a
		// closed connection.
		_ = s.conn.PgConn().CancelRequest(stop)
		_ = s.conn.PgConn().Conn().SetDeadline(time.Now().Add(time.Second))
	})
	return s, nil
}

// close ends the session and gives its place in the pool back, even if golang-migrate has kept
// the connection.
func (s *session) close() {
	if s.interrupt != nil && !s.interrupt() {
		<-s.done
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	// The outcome is known by now, so errors of the closing do not matter.
	_ = s.conn.Close(ctx)
	_ = s.db.Close()
	_ = s.connector.got.Close()
}

// prepare sets the timeouts and the search_path of the session. A role may have timeouts for its
// queries, which are too short for migrations. A role may also have a search_path on which another
// schema comes before pg_catalog. That schema can define operators, functions and types of the
// names that golang-migrate uses.
func (s *session) prepare(ctx context.Context, p plan) error {
	_, err := s.conn.Exec(ctx,
		`SELECT pg_catalog.set_config('search_path', 'pg_catalog', false),
			pg_catalog.set_config('statement_timeout', '0', false), pg_catalog.set_config('lock_timeout', $1, false)`,
		strconv.FormatInt(p.lockTimeout.Milliseconds(), 10))
	return err
}

// lock takes the advisory lock of golang-migrate within the lock timeout. golang-migrate itself
// would wait for it without end. The server grants the lock to the same session again at once.
// The lock also excludes other users of golang-migrate on these tables.
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
			const advice = "let it finish, or end it with pg_terminate_backend and run this again; behind a pooler " +
				"in transaction mode, connect directly or apply the output of \"brim migrate sql\""
			return "", fmt.Errorf("%w for %v%s; %s", ErrLocked, p.lockTimeout, s.holder(ctx, key), advice)
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

// holder names the server process that has the advisory lock, or returns "" if that cannot be
// found out.
func (s *session) holder(ctx context.Context, key int64) string {
	var pid int64
	err := s.conn.QueryRow(ctx, `
		SELECT pid FROM pg_locks
		WHERE locktype = 'advisory' AND granted AND classid::bigint = $1::bigint >> 32 AND objid::bigint = $1::bigint & 4294967295
		  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
		LIMIT 1`, key).Scan(&pid)
	if err != nil {
		return "" // the caller reports the lock
	}
	return fmt.Sprintf(" (server process %d)", pid)
}
