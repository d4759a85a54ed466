package pgrun

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// A statement that gets no answer ends in two steps. After the time of patience() the server is
// asked to cancel it. The server mostly answers, also where the statement waits for the lock of a
// table, for which no lock_timeout of a statement counts: then nothing was applied. At the end of
// its time the connection is cut, and the outcome is unknown.

// patience returns how long a statement runs before the server is asked to cancel it.
func patience(timeout time.Duration) time.Duration { return timeout * 7 / 8 }

// flight is the statement of a call or of a lane that may be in flight.
type flight struct {
	mu    sync.Mutex
	conn  *pgconn.PgConn // nil where nothing is in flight
	asked bool           // the server was asked to cancel the statement
}

func (f *flight) begin(conn *pgxpool.Conn) {
	take(conn.Conn().PgConn(), unsyncedKey) // of a commit of the application
	f.mu.Lock()
	defer f.mu.Unlock()
	f.conn, f.asked = conn.Conn().PgConn(), false
}

// end returns the error of the flight, which has ended with err, or that of a commit that has
// not waited for its standby. It ends a transaction that is left open: the pool would close the
// connection. It closes a connection to a server that is read-only, since the next may go to
// another server, and one on which the server may cancel the next statement as well.
func (f *flight) end(ctx context.Context, conn *pgxpool.Conn, err error) error {
	f.mu.Lock()
	asked := f.asked
	f.conn = nil
	f.mu.Unlock()
	err = OnStandby(conn.Conn().PgConn(), err)
	if take(conn.Conn().PgConn(), unsyncedKey) || asked && err == nil { // a wait for the standby ends without an error
		err = errUnsynced
	}
	if asked {
		if IsCode(err, "57014") {
			err = late{err}
		}
		_ = conn.Conn().Close(ctx)
	}
	if rerr := Rollback(ctx, conn); err == nil {
		err = rerr
	}
	if err != nil && judge(err) == readOnly {
		_ = conn.Conn().Close(ctx)
	}
	return err
}

// interrupt asks the server to cancel the statement, in the background.
func (f *flight) interrupt(within time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	conn := f.conn
	if f.asked = conn != nil; f.asked {
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), within)
			defer cancel()
			_ = conn.CancelRequest(ctx) // the connection is cut if the server does not answer
		}()
	}
}

// bound is the context of a call under its caller's context. It also ends when the server has sent
// nothing for a time: each round trip of a call has that time, and so has each part of
// a long answer.
type bound struct {
	context.Context
	timer   *time.Timer
	timeout time.Duration
	flight  flight
}

// bounded returns a bound that counts from now, and the function that releases it.
func bounded(ctx context.Context, timeout time.Duration) (*bound, func()) {
	ctx, cancel := context.WithCancel(ctx)
	b := &bound{Context: ctx, timeout: timeout}
	b.timer = time.AfterFunc(patience(timeout), func() {
		late := time.AfterFunc(timeout-patience(timeout), cancel)
		context.AfterFunc(ctx, func() { late.Stop() })
		b.flight.interrupt(timeout - patience(timeout))
	})
	return b, func() {
		b.timer.Stop()
		cancel()
	}
}

// answered tells the bound of a call that the server has sent something. Other contexts keep their
// deadlines.
func answered(ctx context.Context) {
	if b, ok := ctx.(*bound); ok {
		b.timer.Reset(patience(b.timeout))
	}
}

// unanswerable tells the bound of a call that the server is not asked anything before [answered].
func unanswerable(ctx context.Context) {
	if b, ok := ctx.(*bound); ok {
		b.timer.Stop()
	}
}

// rowsPerAnswer is how many rows of an answer count as a sign of life of the server.
const rowsPerAnswer = 256

// fresh is how long a connection may be idle before the pool pings it; see
// pgxpool.Config.ShouldPing.
const fresh = time.Second

// acquire takes a connection of the pool, and waits at most for the runner's timeout.
//
// The pool pings a connection that was idle, for as long as the context lasts. If the server has
// hung, a ping takes all the time that it is given. So acquire gives the pool a third of the time
// for its idle connections. Then it has the pool close them, since they share the server, and
// the pool connects anew: with a connect_timeout of a third, it reaches a second host.
func (r *Runner) acquire(ctx context.Context) (*pgxpool.Conn, error) {
	if time.Duration(r.heard.Load()) > time.Since(r.start)-fresh {
		return r.acquireWithin(ctx, r.Timeout) // the pool gives out the connection that was used last
	}
	wait := r.Timeout
	if end, ok := ctx.Deadline(); ok {
		wait = min(wait, time.Until(end))
	}
	if r.pool.Stat().IdleConns() > 0 {
		conn, err := r.acquireWithin(ctx, wait/3)
		if err == nil || ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
			return conn, err
		}
		r.pool.Reset()
		wait -= wait / 3
	}
	return r.acquireWithin(ctx, wait)
}

func (r *Runner) acquireWithin(ctx context.Context, wait time.Duration) (*pgxpool.Conn, error) {
	if end, ok := ctx.Deadline(); !ok || time.Until(end) > wait {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, wait)
		defer cancel()
	}
	return r.pool.Acquire(ctx)
}

// giveBack gives a connection back to the pool. If late is set, the bound of a statement has ended.
// The driver then tells the server to cancel the statement, and gives up after 15 s. The pool would
// keep the place of the connection for so long, so giveBack takes the connection out of the pool.
// Connections that were made before the server hung are of no use either, so the pool closes them.
func (r *Runner) giveBack(conn *pgxpool.Conn, late bool) {
	if late && conn.Conn().IsClosed() {
		conn.Hijack()
		r.pool.Reset()
		return
	}
	if !conn.Conn().IsClosed() {
		r.heard.Store(int64(time.Since(r.start)))
	}
	conn.Release()
}
