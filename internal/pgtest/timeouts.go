package pgtest

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// CountLockTimeouts counts the round trips of the connections that lock_timeout has ended. A
// statement that waits for a row holds up all calls that share it, so the number tells how a
// stranger's lock disturbs them without a look at the time.
func CountLockTimeouts(config *pgx.ConnConfig) (n *atomic.Int64) {
	var l lockTimeouts
	config.Tracer = &l
	return &l.n
}

type lockTimeouts struct{ n atomic.Int64 }

func (l *lockTimeouts) count(err error) {
	if pg := (*pgconn.PgError)(nil); errors.As(err, &pg) && pg.Code == "55P03" {
		l.n.Add(1)
	}
}

func (*lockTimeouts) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}

func (l *lockTimeouts) TraceQueryEnd(_ context.Context, _ *pgx.Conn, d pgx.TraceQueryEndData) {
	l.count(d.Err)
}

func (*lockTimeouts) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}

func (*lockTimeouts) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

func (l *lockTimeouts) TraceBatchEnd(_ context.Context, _ *pgx.Conn, d pgx.TraceBatchEndData) {
	l.count(d.Err)
}
