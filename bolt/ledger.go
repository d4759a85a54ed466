package bolt

import (
	"bytes"
	"context"
	"runtime/debug"

	"go.etcd.io/bbolt"

	"github.com/brimgo/brim/store"
)

// Transact runs fn in a writable transaction of the store's database, and commits it durably if fn reports that it changed
// something. It is for packages that keep buckets of their own beside the store's, as spend/boltledger does; fn must leave the
// store's buckets alone, whose names begin with [Options.Name], and must not call the store.
//
// Transact waits for the commit under way and is waited for by all other writers. An error of fn, or a panic of bbolt's, rolls
// back. If the error is [store.ErrUnknownOutcome] the transaction may have been committed; after any other it was not.
func (s *Store) Transact(fn func(tx *bbolt.Tx) (changed bool, err error)) error {
	if err := s.check(context.Background()); err != nil {
		return store.Wrap(backend, "transact", err)
	}
	s.writer <- struct{}{}
	defer func() { <-s.writer }()
	if s.closed.Load() {
		return store.Wrap(backend, "transact", store.ErrClosed)
	}
	return s.transact(fn)
}

func (s *Store) transact(fn func(tx *bbolt.Tx) (bool, error)) error {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	s.mu.RLock()
	defer s.mu.RUnlock()
	if err := s.usable(); err != nil {
		return store.Wrap(backend, "transact", err)
	}
	tx, err := s.begin(true)
	if err != nil {
		return store.Wrap(backend, "transact", err)
	}
	defer s.rollback(tx) // does nothing after a commit
	changed := false
	switch err := guard(func() (err error) { changed, err = fn(tx); return err }); {
	case isPanic(err):
		return store.Wrap(backend, "transact", s.damaged(err))
	case err != nil, !changed:
		return err
	}
	return store.Wrap(backend, "transact", s.commit(tx))
}

// View runs fn in a read-only transaction on the newest commit. Like Transact it is for packages that keep buckets of their
// own. Keep it short: pages that were freed meanwhile cannot be used again before it ends.
func (s *Store) View(fn func(tx *bbolt.Tx) error) error {
	if err := s.check(context.Background()); err != nil {
		return store.Wrap(backend, "view", err)
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed.Load() {
		return store.Wrap(backend, "view", store.ErrClosed)
	}
	tx, err := s.begin(false)
	if err != nil {
		return store.Wrap(backend, "view", err)
	}
	defer s.rollback(tx)
	if err = guard(func() error { return fn(tx) }); isPanic(err) {
		return store.Wrap(backend, "view", s.damaged(err))
	}
	return err
}

// copyOthers copies the buckets that other packages keep in the file, in transactions of a size that fits into memory.
func (s *Store) copyOthers(ctx context.Context, from *bbolt.Tx, to *bbolt.DB) error {
	names := from.Cursor()
	for name, value := names.First(); name != nil; name, value = names.Next() {
		if value != nil || bytes.Equal(name, s.layout.records) || bytes.Equal(name, s.layout.meta) {
			continue
		}
		source := from.Bucket(name)
		c := source.Cursor()
		k, v := c.First()
		for first := true; first || k != nil; first = false {
			if err := ctx.Err(); err != nil {
				return err
			}
			err := to.Update(func(tx *bbolt.Tx) error {
				target, err := tx.CreateBucketIfNotExists(name)
				if err != nil {
					return err
				}
				target.FillPercent = fillAtEnd
				for n := 0; k != nil && n < copyBatch; k, v = c.Next() {
					if err := target.Put(k, v); err != nil {
						return err
					}
					n++
				}
				return target.SetSequence(source.Sequence())
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}
