package sqliterun

import (
	"errors"

	"github.com/brimgo/brim/internal/combine"
	"github.com/brimgo/brim/store"
)

// Combiner returns the combiner of the requests that may write. decide decides a batch in a
// transaction, and commits it if anything has changed; its error is that of every request. The
// transaction ends before the callers have their answers, unless decide panics, so that nobody who
// has one meets its lock. While the lane waits for the write lock, callers wait in the queue, where
// the end of their contexts still takes them back.
//
// If a damaged page fails a batch, each request is decided by itself, so that only those fail that
// need the page.
func Combiner[Q, A any](r *Runner, decide func(tx *Tx, batch []*combine.Request[Q, A]) error) (*combine.Combiner[Q, A], error) {
	var tx *Tx // nil after a flush that has ended it
	alone := func(request *combine.Request[Q, A]) error {
		tx, err := r.Begin()
		if err != nil {
			return err
		}
		defer tx.End()
		return decide(tx, []*combine.Request[Q, A]{request})
	}
	flush := func(_ int, batch []*combine.Request[Q, A]) {
		err := decide(tx, batch)
		tx.End()
		tx = nil
		if err == nil {
			return
		}
		split := len(batch) > 1 && errors.Is(err, store.ErrCorrupt)
		var none A
		for _, request := range batch {
			request.Out, request.Err = none, nil
			own := err
			if split {
				own = alone(request)
			}
			if own != nil {
				request.Out, request.Err = none, own
			}
		}
	}
	return combine.New(flush, &combine.Options{
		Before: func(int) (err error) { tx, err = r.Begin(); return err },
		After: func(int) {
			if tx != nil {
				tx.End()
			}
		},
		Flushed: r.Flushed(),
	})
}
