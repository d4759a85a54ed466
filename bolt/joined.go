package bolt

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/brimgo/brim/store"
)

// Update runs fn, whose calls on the store that it is given all happen in one transaction: it commits when fn returns nil,
// and rolls back when fn returns an error, which Update returns as it is, or panics. Nothing that fn was answered counts
// before Update has returned nil.
//
// It is for decisions that depend on one another, and for many at once: thousands cost one commit. Update waits for the
// commit under way, and all other writers wait for fn. The clock is read for each of fn's calls. If ctx ends before fn
// returns, Update rolls back and returns its error.
//
// fn must not call methods of s itself that write: they would wait for fn. The store it is given reads what fn has written,
// may be used by several goroutines of fn, and answers [store.ErrClosed] after fn has returned.
func (s *Store) Update(ctx context.Context, fn func(store.Store) error) error {
	if err := s.check(ctx); err != nil {
		return store.Wrap(backend, "update", err)
	}
	if err := s.lock(ctx); err != nil {
		return store.Wrap(backend, "update", err)
	}
	defer func() { <-s.writer }()
	if s.closed.Load() {
		return store.Wrap(backend, "update", store.ErrClosed)
	}
	var fnErr error
	v := &view{maxSkew: s.options.MaxSkew, keepTime: s.options.Clock == nil}
	err := s.write(v, s.clock.Now, func() error {
		j := &joined{s: s, view: v}
		defer j.end()
		fnErr = fn(j)
		if fnErr == nil {
			fnErr = ctx.Err()
		}
		return fnErr
	})
	if fnErr != nil {
		return fnErr
	}
	return store.Wrap(backend, "update", err)
}

// With returns a store whose calls happen in tx, a transaction of the database given to [New]: what they decide is durable
// when the application commits tx, and undone when it rolls back. Reading works in a read-only transaction too.
//
// Like tx itself it is for one goroutine at a time, and it is of no use once tx has ended. After an error that is not
// [store.ErrNotHeld] roll tx back. Close does nothing. Callers of the store itself wait while tx is writable and open.
func (s *Store) With(tx *bbolt.Tx) store.Store { return &joined{s: s, tx: tx} }

// joined is a store within a transaction that somebody else ends.
type joined struct {
	s  *Store
	tx *bbolt.Tx // With's

	mu    sync.Mutex
	view  *view // Update's, written at its end; nil for With, which has a new one for each call, written in it
	ended bool
}

var _ store.Store = (*joined)(nil)

func (j *joined) end() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.ended = true
}

// errReadOnly is a write in a transaction that cannot.
var errReadOnly = fmt.Errorf("%w: begin a writable transaction, with Update or Begin(true), to fill buckets in it", berrors.ErrTxNotWritable)

// do runs fn on the view.
func (j *joined) do(ctx context.Context, op string, writes bool, fn func(v *view, now int64) error) (err error) {
	defer func() { err = store.Wrap(backend, op, err) }()
	if j.s == nil {
		return store.ErrClosed
	}
	with := j.view == nil
	if with && j.s.closed.Load() { // Close lets an Update that has begun end
		return store.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := j.s.usable(); err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.ended {
		return store.ErrClosed
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	v := j.view
	if with {
		switch {
		case j.tx == nil, j.tx.DB() == nil:
			return fmt.Errorf("%w: the transaction has ended", store.ErrClosed)
		case j.s.owned || j.tx.DB() != j.s.db:
			return unavailable("the transaction belongs to another database than the one given to New", nil)
		case writes && !j.tx.Writable():
			return errReadOnly
		}
		// What was put stays referred to until the transaction ends: the view is not used again.
		v = &view{maxSkew: j.s.options.MaxSkew, keepTime: j.s.options.Clock == nil}
		if err := guard(func() error { return v.reset(j.tx, j.s.layout) }); err != nil {
			return j.s.damaged(err)
		}
	}
	now := j.s.clock.Now()
	err = guard(func() error {
		if err := fn(v, now); err != nil || !with || !writes {
			return err
		}
		_, err := v.write(now)
		return err
	})
	if isPanic(err) {
		return j.s.damaged(err)
	}
	return err
}

func (j *joined) Fill(ctx context.Context, op store.Op) (st store.State, err error) {
	err = j.do(ctx, "fill", true, func(v *view, now int64) (err error) {
		st, err = v.fill(&op, now)
		return err
	})
	return st, err
}

func (j *joined) Apply(ctx context.Context, txns ...store.Txn) (results []store.Result, err error) {
	err = j.do(ctx, "apply", true, func(v *view, now int64) error {
		results = v.apply(txns, now)
		return nil
	})
	return results, err
}

func (j *joined) Read(ctx context.Context, buckets ...store.Bucket) (states []store.State, err error) {
	err = j.do(ctx, "read", false, func(v *view, now int64) error {
		states = make([]store.State, len(buckets))
		for i, b := range buckets {
			e := v.entry(b.Key)
			if e.err != nil {
				return e.err
			}
			states[i] = e.at(now).State(b.Limit, now, v.maxSkew)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return states, nil
}

func (j *joined) Delete(ctx context.Context, keys ...string) error {
	return j.do(ctx, "delete", true, func(v *view, _ int64) error {
		v.delete(keys)
		return nil
	})
}

func (j *joined) Scan(ctx context.Context, prefix, after string, limit int) (entries []store.Entry, err error) {
	err = j.do(ctx, "scan", false, func(v *view, now int64) (err error) {
		if _, err := v.write(now); err != nil { // bbolt's cursor sees what was put, not what the view holds
			return err
		}
		entries, err = j.s.scan(v.records, prefix, after, limit)
		return err
	})
	return entries, err
}

func (j *joined) Prune(ctx context.Context) (pruned int64, err error) {
	err = j.do(ctx, "prune", true, func(v *view, now int64) error {
		if _, err := v.write(now); err != nil {
			return err
		}
		var keys []string
		c := v.records.Cursor()
		for key, value := c.First(); key != nil; key, value = c.Next() {
			if rec, _, err := decodeRecord(key, value); err == nil && rec.Expired(now, v.maxSkew) {
				keys = append(keys, string(key))
			}
		}
		pruned = v.prune(keys, now)
		return nil
	})
	return pruned, err
}

// Close does nothing: the transaction belongs to somebody else.
func (j *joined) Close() error { return nil }
