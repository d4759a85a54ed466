package history

import (
	"context"
	"errors"
	"time"

	"github.com/brimgo/brim/store"
)

// Request is a history to carry out.
type Request struct {
	Dir     string // the directory of the file
	Subject Subject
	Defect  Defect
	Segment int64 // of a journal; 0 means the smallest of [Segments]
	Free    bool  // a call does not wait until a store has ended its work in the background
	Seconds int   // that the clock shows when the history begins
	Ops     []Op
}

// Note tells that the call with that index begins, or is answered.
type Note struct {
	Op     int
	Answer *Answer // nil when the call begins
}

// Final is the index of the last call, after all of [Request.Ops]: the store is closed. The answer
// is that of Close.
const Final = -1

// Backend is a store with the methods that bolt's stores share.
type Backend interface {
	store.Store
	Compact(ctx context.Context) (before, after int64, err error)
	Verify(ctx context.Context) error
}

// Runner carries out the calls of a request in this process.
type Runner struct {
	Request
	seconds int
	o       *opened // nil while the store is closed
}

// NewRunner returns a runner at the beginning of a request.
func NewRunner(req Request) *Runner { return &Runner{Request: req, seconds: req.Seconds} }

// Do carries out the next call.
func (r *Runner) Do(op Op) Answer {
	answer := r.do(op)
	if !r.Free {
		quiet()
	}
	return answer
}

// Close carries out the final call.
func (r *Runner) Close() Answer { return Failed(r.close()) }

func (r *Runner) open(ctx context.Context) (err error) {
	if r.o != nil {
		return nil
	}
	r.Defect.Install()
	r.o, err = open(ctx, r.Dir, r.Subject, r.Segment, func() time.Time { return At(r.seconds) })
	return err
}

func (r *Runner) close() error {
	o := r.o
	r.o = nil
	return o.close()
}

// do carries out one call. It opens the store first if the store could not be opened earlier.
func (r *Runner) do(op Op) Answer {
	if op.Kind == Tick {
		r.seconds += op.Seconds
		return Answer{}
	}
	ctx := context.Background()
	if err := r.open(ctx); err != nil {
		return Answer{Err: NotApplied, Text: err.Error()}
	}
	if op.Kind == Reopen {
		return Failed(errors.Join(r.close(), r.open(ctx)))
	}
	switch op.Kind {
	case Authorize, Capture, Refund:
		return send(ctx, r.o.budgets, op)
	}
	return Call(ctx, r.Defect.Wrap(r.o.s), op)
}
