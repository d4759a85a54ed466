package bolt

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"go.etcd.io/bbolt"

	"github.com/brimgo/brim/internal/combine"
	"github.com/brimgo/brim/store"
)

// flush decides a batch in one read-write transaction and commits it, if anything changed. The combiner holds the writer's
// token meanwhile.
func (s *Store) flush(_ int, batch []*combine.Request[request, reply]) {
	err := s.write(&s.view, s.clock.Now, func() error {
		now := s.clock.Now()
		for _, r := range batch {
			s.decide(r, now)
		}
		return nil
	})
	s.view.forget()
	if err == nil {
		return
	}
	for _, r := range batch {
		if r.Err == nil {
			r.Out, r.Err = reply{}, err
		}
	}
}

// decide answers one request of a batch. What is wrong with it is its own error and nobody else's.
func (s *Store) decide(r *combine.Request[request, reply], now int64) {
	v := &s.view
	switch r.In.kind {
	case fill:
		r.Out.state, r.Err = v.fill(&r.In.op, now)
	case apply:
		r.Out.results = v.apply(r.In.txns, now)
	case remove:
		v.delete(r.In.keys)
	case prune:
		r.Out.pruned = v.prune(r.In.keys, now)
	}
}

// write runs fn on v, which becomes a view of a new read-write transaction, and commits what it changed. Whoever calls holds
// the writer's token. An error of fn rolls back and is returned as it is; a panic of fn rolls back and goes on.
func (s *Store) write(v *view, now func() int64, fn func() error) error {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	s.mu.RLock()
	defer s.mu.RUnlock()
	if err := s.usable(); err != nil {
		return err
	}
	tx, err := s.begin(true)
	if err != nil {
		return err
	}
	defer s.rollback(tx) // does nothing after a commit
	if err := guard(func() error { return v.reset(tx, s.layout) }); err != nil {
		return s.damaged(err)
	}
	if err := fn(); err != nil {
		return err
	}
	if v.skewed > 0 {
		s.options.Logger.Warn("bolt: buckets were dated further ahead of the clock than MaxSkew; their time was set to the clock",
			"buckets", v.skewed, "max_skew", s.options.MaxSkew)
	}
	var changed bool
	if err := guard(func() (err error) { changed, err = v.write(now()); return err }); err != nil {
		return s.damaged(err)
	}
	if !changed {
		return nil
	}
	return s.commit(tx)
}

// begin starts a transaction. A panic there leaves bbolt's locks locked.
func (s *Store) begin(writable bool) (tx *bbolt.Tx, err error) {
	err = guard(func() (err error) { tx, err = s.db.Begin(writable); return err })
	switch {
	case err == nil:
		return tx, nil
	case isPanic(err):
		return nil, s.stop(err)
	}
	return nil, unavailable(err.Error(), err)
}

// rollback ends tx if it has not ended. A panic there leaves bbolt's locks locked.
func (s *Store) rollback(tx *bbolt.Tx) {
	if tx.DB() == nil {
		return
	}
	if err := guard(tx.Rollback); isPanic(err) {
		_ = s.stop(err)
	}
}

// commit makes tx durable. If that fails it finds out what is known: whether the commit's last page, the one that makes the
// others count, has been written.
func (s *Store) commit(tx *bbolt.Tx) error {
	id := tx.ID()
	cause := guard(tx.Commit)
	if cause == nil {
		return nil
	}
	s.rollback(tx)
	visible, known := false, false
	if !s.stuck.Load() {
		if read, err := s.begin(false); err == nil {
			visible, known = read.ID() >= id, true
			s.rollback(read)
		}
	}
	s.options.Logger.Error("bolt: commit failed", "error", cause, "visible", visible)
	if visible || !known {
		s.refuse(fmt.Sprintf("an earlier commit failed and may or may not last (%v); close the store and open it again", cause))
		return &fault{
			msg:    fmt.Sprintf("the commit failed when it was written but not yet known to last: %v", cause),
			causes: []error{store.ErrUnknownOutcome, cause},
		}
	}
	if isPanic(cause) {
		return s.damaged(cause)
	}
	if isDiskFailure(cause) {
		s.refuse(fmt.Sprintf("the disk failed earlier (%v); close the store and open it again", cause))
	}
	return unavailable(fmt.Sprintf("nothing was applied: %v", cause), cause)
}

// refuse makes the store refuse all further work.
func (s *Store) refuse(why string) {
	s.broken.CompareAndSwap(nil, &fault{msg: why, causes: []error{store.ErrUnavailable}})
}

// stop makes the store refuse all further work because bbolt can no longer be called, and returns err.
func (s *Store) stop(err error) error {
	s.stuck.Store(true)
	s.broken.CompareAndSwap(nil, &fault{
		msg:    fmt.Sprintf("the file is damaged (%v); close the store, and restore the file", err),
		causes: []error{store.ErrCorrupt, store.ErrUnavailable},
	})
	return s.damaged(err)
}

// damaged logs damage on its way to the caller.
func (s *Store) damaged(err error) error {
	s.options.Logger.Error("bolt: stored data is damaged", "error", err)
	return err
}

// lock takes the writer's token, unless ctx ends first.
func (s *Store) lock(ctx context.Context) error {
	select {
	case s.writer <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// panicError is a panic out of bbolt, made an error by guard.
type panicError struct{ error }

func (p panicError) Unwrap() error { return p.error }

func isPanic(err error) bool {
	return errors.As(err, new(panicError))
}

// guard calls into bbolt and makes an error of a panic.
func guard(fn func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = panicError{panicked(p)}
		}
	}()
	return fn()
}
