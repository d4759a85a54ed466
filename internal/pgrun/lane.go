package pgrun

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/internal/sleep"
	"github.com/brimgo/brim/store"
)

// Lane runs one flush after another, each on a connection that the lane takes from the pool and
// gives back. A lane is for one goroutine at a time.
type Lane struct {
	r    *Runner
	conn *pgxpool.Conn // nil between flushes
	wait time.Duration // the lock_timeout of the flush
	own  time.Duration // the lock_timeout of the connection's session; 0 for none
	skip bool          // the statements of the flush leave out the rows that others hold

	mu  sync.Mutex      // guards changes of ctx, deadline and over
	ctx context.Context // of the flush
	end context.CancelFunc

	deadline context.Context // the parent of ctx; see begin
	since    time.Time       // when deadline was made
	over     bool            // the server was asked to cancel what has this deadline
	flight   flight
}

// begin makes the context of the next flush, which ends after the runner's timeout, or up to an
// eighth of it earlier. A timer for each flush would cost a lone caller some microseconds, because
// the runtime wakes a thread to look at it. So flushes that begin at about the same time share one.
func (l *Lane) begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := time.Now(); l.deadline == nil || now.Sub(l.since) > l.r.Timeout/8 {
		deadline, cancel := context.WithTimeout(context.Background(), l.r.Timeout)
		context.AfterFunc(deadline, cancel)
		time.AfterFunc(patience(l.r.Timeout), func() { l.interrupt(deadline) })
		l.deadline, l.since, l.over = deadline, now, false
	}
	l.ctx, l.end = context.WithCancel(l.deadline)
}

// interrupt asks the server to cancel the statement of a flush that has the given deadline. The
// flush sends no other.
func (l *Lane) interrupt(deadline context.Context) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.deadline == deadline {
		l.over = true
		l.flight.interrupt(l.r.Timeout - patience(l.r.Timeout))
	}
}

// Attempts are the attempts to run one statement or one transaction on a lane:
//
//	try := lane.Attempts()
//	for try.Next(ctx) {
//		try.Err = ... // on try.Conn
//	}
//
// Err is then the error of the last attempt: [store.ErrUnavailable] or [store.ErrUnknownOutcome].
type Attempts struct {
	Conn *pgxpool.Conn
	Err  error

	lane *Lane
	n    int
}

// Attempts returns the attempts of a statement or a transaction.
func (l *Lane) Attempts() *Attempts { return &Attempts{lane: l} }

// Next begins the first attempt, or another where nothing was applied and that may help.
func (a *Attempts) Next(ctx context.Context) bool {
	l := a.lane
	if a.Conn != nil {
		a.Err = l.flight.end(ctx, a.Conn, a.Err)
		a.Conn = nil
	}
	for a.n == 0 || l.r.again(ctx, a.n-1, a.Err) {
		a.n++
		if a.Err = l.ready(); a.Err == nil {
			a.Conn = l.conn
			l.flight.begin(a.Conn)
			return true
		}
	}
	a.Err = l.r.explain(a.Err)
	return false
}

// ready connects where the lane has no connection. It fails if the server was asked to cancel a
// statement that the flush sent before.
func (l *Lane) ready() error {
	if err := l.connect(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return late{errLate}
	}
	return nil
}

// retries is the largest number of attempts after the first.
const retries = 3

// again reports whether the attempt number n, from 0, ended with an error that says that nothing
// was applied and that the same statement may succeed. It waits before the next attempt.
//
// A cancelled statement is sent once more, because the cancellation can be a mistake. A
// lock_timeout that passes while the server grants the lock cancels the statement a moment later.
// If the statement has begun to wait for its next lock by then, the server has cleared the mark of
// the timeout (enable_timeout in timeout.c of PostgreSQL) and reports that a user has cancelled it.
func (r *Runner) again(ctx context.Context, n int, err error) bool {
	if err == nil || n == retries {
		return false
	}
	switch v := judge(err); {
	case v == serialized && !r.explicit.Swap(true):
		return true // the next attempt asks for READ COMMITTED: there is nobody to wait for
	case v == serialized, v == retry, v == cancelled && n == 0:
		r.retrying(n+1, r.explain(err))
		return backoff(ctx, n) == nil
	}
	return false
}

// Rollback ends a transaction that is open on the connection.
func Rollback(ctx context.Context, conn *pgxpool.Conn) error {
	if c := conn.Conn(); c.IsClosed() || c.PgConn().TxStatus() == 'I' {
		return nil
	}
	_, err := conn.Exec(ctx, "ROLLBACK")
	return err
}

// LockTimeout returns the lock_timeout of the lane's flush as the argument of a statement that
// locks rows; see the fragment lock_timeout(). Where there is no lane, the transaction belongs to
// the application, which bounds its own waits: LockTimeout returns nil.
func (l *Lane) LockTimeout() *string {
	if l == nil {
		return nil
	}
	return lockTimeoutOf(l.wait, l.own)
}

// IdleTimeout is [Runner.IdleTimeout] for the lane's transactions. Where there is no lane, it
// returns nil.
func (l *Lane) IdleTimeout() *string {
	if l == nil {
		return nil
	}
	return l.r.IdleTimeout()
}

// Skips reports whether the statements of the flush leave out the rows that other transactions
// hold. Where there is no lane, they do not.
func (l *Lane) Skips() bool { return l != nil && l.skip }

// ErrHeld is the Err of a request that a flush leaves out because another transaction holds a row
// of it. Nothing was applied. The caller's goroutine moves the request to the slow lane.
var ErrHeld = fmt.Errorf("%w: another transaction has held the row", store.ErrUnavailable)

// acquire takes a connection for the next flush. Callers can still take their requests back
// while it waits.
func (l *Lane) acquire() error {
	l.begin()
	if err := l.connect(); err != nil {
		l.end()
		return err
	}
	_ = l.r.measure(l.ctx, l.conn)
	return nil
}

// cut ends the flush in flight at once.
func (l *Lane) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.end != nil {
		l.end()
	}
}

// connect takes a connection where the lane has none, or one that has broken.
func (l *Lane) connect() error {
	if l.conn != nil && !l.conn.Conn().IsClosed() {
		return nil
	}
	l.disconnect()
	conn, err := l.r.acquire(l.ctx)
	switch {
	case err == nil:
		l.conn = conn
		if err := vetted(l.ctx, conn); err != nil {
			l.disconnect()
			return l.r.explain(err)
		}
		l.own = ownWait(conn.Conn())
		return nil
	case l.ctx.Err() != nil:
		return fmt.Errorf("%w: no connection within %v; see Options.StatementTimeout and the pool's size",
			store.ErrUnavailable, l.r.Timeout)
	}
	return l.r.explain(unsent{err})
}

// release gives the connection back when the flush is done.
func (l *Lane) release() {
	l.disconnect()
	l.end()
}

func (l *Lane) disconnect() {
	if l.conn != nil {
		l.r.giveBack(l.conn, l.ctx.Err() == context.DeadlineExceeded)
		l.conn = nil
	}
}

// backoff waits before the nth retry, with full jitter: two callers that collided come back at
// different times.
func backoff(ctx context.Context, n int) error { return sleep.For(ctx, rand.N(10*time.Millisecond<<n)) }
