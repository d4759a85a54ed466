package pgrun

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/internal/combine"
	"github.com/brimgo/brim/store"
)

// Lane runs one flush after another, each on a connection that the lane takes from the pool and
// gives back. A lane is for one goroutine at a time.
type Lane struct {
	r    *Runner
	conn *pgxpool.Conn // nil between flushes
	watchdog
}

// Combiner is a combiner whose flushes run on lanes. It closes with its runner.
type Combiner[Q, A any] struct {
	*combine.Combiner[Q, A]
	r     *Runner
	lanes []*Lane
}

// Batching are the choices of [NewCombiner]; see [combine.Options] for each.
type Batching struct {
	Lanes, MinBatch, MaxBatch int
}

// NewCombiner returns a combiner that takes a connection before each flush, bounds the flush by
// the runner's timeout, and reports it to the trace. It calls flusher once for each lane; the
// function that flusher returns answers the batches of that lane, and sends to the server by
// [Lane.Attempt] alone.
func NewCombiner[Q, A any](
	r *Runner, b Batching, flusher func(*Lane) func(context.Context, []*combine.Request[Q, A]),
) (*Combiner[Q, A], error) {
	c := &Combiner[Q, A]{r: r}
	flushes := make([]func(context.Context, []*combine.Request[Q, A]), max(1, b.Lanes))
	for i := range flushes {
		lane := &Lane{r: r, watchdog: newWatchdog(r.Timeout)}
		c.lanes = append(c.lanes, lane)
		flushes[i] = flusher(lane)
	}
	var err error
	c.Combiner, err = combine.New(
		func(i int, batch []*combine.Request[Q, A]) { flushes[i](c.lanes[i].flushing(), batch) },
		&combine.Options{
			Lanes: b.Lanes, MinBatch: b.MinBatch, MaxBatch: b.MaxBatch,
			Before:  func(i int) error { return c.lanes[i].acquire() },
			Cut:     func(i int) { c.lanes[i].end() },
			After:   func(i int) { c.lanes[i].release() },
			Flushed: r.flushed(),
		})
	if err != nil {
		return nil, err
	}
	if !r.keep(c) {
		c.Close()
	}
	return c, nil
}

// NewTransactions returns a combiner whose flushes are one transaction each. transact begins,
// decides and commits a transaction for a batch on the connection; it sets the Err of a request
// that fails by itself. Where the server refuses the transaction of a batch, each request gets
// a transaction of its own, so that one bad request fails alone.
func NewTransactions[Q, A any](
	r *Runner, b Batching, transact func(context.Context, *pgxpool.Conn, []*combine.Request[Q, A]) error,
) (*Combiner[Q, A], error) {
	return NewCombiner(r, b, func(l *Lane) func(context.Context, []*combine.Request[Q, A]) {
		attempt := func(ctx context.Context, batch []*combine.Request[Q, A]) error {
			err := l.Attempt(ctx, func(conn *pgxpool.Conn) error {
				for _, request := range batch {
					request.Err = nil // of an attempt before
				}
				return transact(ctx, conn, batch)
			})
			if err != nil {
				for _, request := range batch {
					request.Err = err
				}
			}
			return err
		}
		return func(ctx context.Context, batch []*combine.Request[Q, A]) {
			if err := attempt(ctx, batch); Refused(err) && len(batch) > 1 {
				for i := range batch {
					_ = attempt(ctx, batch[i:i+1]) // the request has the error
				}
			}
		}
	})
}

// Close refuses further calls, waits for those in flight and stops the lanes' timers.
func (c *Combiner[Q, A]) Close() {
	c.Combiner.Close()
	for _, l := range c.lanes {
		l.close()
	}
	c.r.forget(c)
}

// Attempt calls f with the lane's connection, on which f sends one statement or one
// transaction. It calls f again where nothing was applied and a retry may help. The error is
// [store.ErrUnavailable] or [store.ErrUnknownOutcome].
func (l *Lane) Attempt(ctx context.Context, f func(*pgxpool.Conn) error) error {
	return l.r.explain(l.r.retry(ctx, func() error {
		if err := l.connect(); err != nil {
			return err
		}
		return use(ctx, l.conn, f)
	}))
}

// retries is the largest number of attempts after the first.
const retries = 3

// retry calls attempt again while its error says that nothing was applied and that the same
// statement may succeed. It returns the error of the last attempt as the driver made it.
func (r *Runner) retry(ctx context.Context, attempt func() error) error {
	for n := 0; ; n++ {
		err := attempt()
		if err == nil || n == retries {
			return err
		}
		switch v := judge(err); {
		case v == serialized && !r.explicit.Swap(true):
			continue // the next attempt asks for READ COMMITTED: there is nobody to wait for
		case v == serialized, v == retry:
			r.retrying(n+1, r.explain(err))
		default:
			return err
		}
		if backoff(ctx, n) != nil {
			return err
		}
	}
}

// use calls f with the connection and ends a transaction that f left open: the pool would close
// the connection. It closes a connection to a server that is read-only, since the next may go
// to another server.
func use(ctx context.Context, conn *pgxpool.Conn, f func(*pgxpool.Conn) error) error {
	err := f(conn)
	if c := conn.Conn(); !c.IsClosed() && c.PgConn().TxStatus() != 'I' {
		if _, rerr := conn.Exec(ctx, "ROLLBACK"); err == nil {
			err = rerr
		}
	}
	if err != nil && judge(err) == readOnly {
		_ = conn.Conn().Close(ctx)
	}
	return err
}

// acquire takes a connection for the next flush. Callers can still take their requests back
// while it waits.
func (l *Lane) acquire() error {
	l.start()
	err := l.connect()
	if err != nil {
		l.stop()
	}
	return err
}

// connect takes a connection where the lane has none, or one that has broken.
func (l *Lane) connect() error {
	if l.conn != nil && !l.conn.Conn().IsClosed() {
		return nil
	}
	l.disconnect()
	ctx := l.acquiring()
	conn, err := l.r.pool.Acquire(ctx)
	switch {
	case err == nil:
		l.conn = conn
		l.watch(conn.Conn().PgConn().Conn())
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("%w: no connection within %v; see Options.StatementTimeout and the pool's size",
			store.ErrUnavailable, l.r.Timeout)
	}
	return l.r.explain(unsent{err})
}

// release gives the connection back when the flush is done.
func (l *Lane) release() {
	l.disconnect()
	l.stop()
}

func (l *Lane) disconnect() {
	if l.conn != nil {
		l.unwatch()
		l.conn.Release()
		l.conn = nil
	}
}

// backoff waits before the nth retry, with full jitter: two callers that collided come back at
// different times.
func backoff(ctx context.Context, n int) error {
	t := time.NewTimer(rand.N(10 * time.Millisecond << n))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
