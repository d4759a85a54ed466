package bolt

import (
	"context"
	"errors"

	"github.com/brimgo/brim/internal/boltfile"
	"github.com/brimgo/brim/internal/boltrecord"
	"github.com/brimgo/brim/internal/kv"
	"github.com/brimgo/brim/internal/paging"
	"github.com/brimgo/brim/internal/records"
	"github.com/brimgo/brim/store"
)

// Read returns states as of the newest flush.
func (s *Store) Read(ctx context.Context, buckets ...store.Bucket) (states []store.State, err error) {
	if err = s.check(ctx); err == nil {
		err = s.db.Read(func(tx *kv.Tx) (err error) {
			states, err = s.view(tx).States(buckets, s.clock.Now())
			return err
		})
	}
	return states, store.Wrap(backend, "read", err)
}

// ask answers op if the answer changes nothing; otherwise ok is false.
//
// The answer is exact: all decisions that were acknowledged before this call count, and this call
// may come before or after the decisions that are being flushed meanwhile. It never grants an
// amount.
func (s *Store) ask(op *store.Op) (st store.State, ok bool, err error) {
	err = s.db.Get(s.table, op.Key, func(value []byte) error {
		now := s.clock.Now()
		r, err := boltrecord.Decode(value, now)
		if err != nil {
			return err
		}
		var effect store.Effect
		st, effect, err = r.Fill(op, now, s.options.MaxSkew)
		ok = effect == 0
		return err
	})
	return st, ok, explain(err)
}

// Visit visits the buckets in the file, in byte order of key, after it has all decisions that were
// acknowledged before the call. Later decisions may not show. See [store.Store].
func (s *Store) Visit(ctx context.Context, prefix string, f func(store.Entry) bool) error {
	err := s.check(ctx)
	if err == nil {
		err = s.db.Checkpoint(ctx)
	}
	if err == nil {
		err = paging.Visit(func(after string, limit int) (entries []store.Entry, err error) {
			if err := s.check(ctx); err != nil {
				return nil, err
			}
			err = s.db.Stored(func(tx *kv.Tx) (err error) {
				entries, err = page(&s.view(tx).View, prefix, after, limit, s.clock.Now())
				return err
			})
			return entries, err
		}, f)
	}
	return store.Wrap(backend, "visit", err)
}

// page lists intact buckets. The error tells the number of damaged buckets among them.
func page(v *records.View, prefix, after string, limit int, now int64) ([]store.Entry, error) {
	entries, damaged, err := v.Page(prefix, after, limit, now)
	if err == nil && damaged > 0 {
		err = boltfile.Damagef("buckets left out because their records are damaged: %d; "+
			"\"brim verify\" names them, and Reset makes them empty and usable again", damaged)
	}
	return entries, err
}

// explain returns the error of reading a record.
func explain(err error) error {
	if errors.Is(err, kv.ErrDamaged) {
		return boltrecord.Damagef("does not match its checksums")
	}
	return err
}
