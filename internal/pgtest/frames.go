package pgtest

import (
	"context"
	"runtime"
	"strings"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
)

// Frames is a tracer of a connection that counts the functions of brim between a caller and the
// driver: the length of the way that a reader of the code has to follow.
type Frames struct{ most atomic.Int64 }

// Most returns the largest number since the last call of Most.
func (f *Frames) Most() int { return int(f.most.Swap(0)) }

func (f *Frames) count() {
	stack := make([]uintptr, 200)
	frames := runtime.CallersFrames(stack[:runtime.Callers(3, stack)])
	n := int64(0)
	for more := true; more; {
		var frame runtime.Frame
		frame, more = frames.Next()
		if strings.HasPrefix(frame.Function, "github.com/brimgo/brim/") && !strings.HasSuffix(frame.File, "_test.go") {
			n++
		}
	}
	for most := f.most.Load(); n > most && !f.most.CompareAndSwap(most, n); most = f.most.Load() {
	}
}

// TraceQueryStart implements [pgx.QueryTracer].
func (f *Frames) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	f.count()
	return ctx
}

// TraceQueryEnd implements [pgx.QueryTracer].
func (f *Frames) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// TraceBatchStart implements [pgx.BatchTracer].
func (f *Frames) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	f.count()
	return ctx
}

// TraceBatchQuery implements [pgx.BatchTracer].
func (f *Frames) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

// TraceBatchEnd implements [pgx.BatchTracer].
func (f *Frames) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}
