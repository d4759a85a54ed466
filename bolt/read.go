package bolt

import (
	"context"
	"errors"
	"strings"

	"github.com/brimgo/brim/internal/boltfile"
	"github.com/brimgo/brim/internal/boltrecord"
	"github.com/brimgo/brim/internal/kv"
	"github.com/brimgo/brim/internal/paging"
	"github.com/brimgo/brim/store"
)

// Read returns states as of the newest flush.
func (s *Store) Read(ctx context.Context, buckets ...store.Bucket) (states []store.State, err error) {
	if err = s.check(ctx); err == nil {
		err = s.db.Read(func(tx *kv.Tx) (err error) {
			states, err = (&view{Tx: tx, s: s}).read(buckets)
			return err
		})
	}
	return states, store.Wrap(backend, "read", err)
}

// ask answers op if the answer changes nothing; otherwise ok is false.
//
// The answer is exact: all decisions that were acknowledged before this call count, and this call may
// come before or after the decisions that are being flushed meanwhile. It never grants an amount.
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
				entries, err = (&view{Tx: tx, s: s}).scan(prefix, after, limit)
				return err
			})
			return entries, err
		}, f)
	}
	return store.Wrap(backend, "visit", err)
}

// scan lists intact buckets. The error tells the number of damaged buckets among them.
func (v *view) scan(prefix, after string, limit int) (entries []store.Entry, err error) {
	now, damaged := v.s.clock.Now(), 0
	err = v.walk(max(prefix, after), func(key string, r *store.Record) bool {
		switch {
		case !strings.HasPrefix(key, prefix):
			return false
		case after != "" && key == after:
		case r == nil:
			damaged++
		default:
			entries = append(entries, store.Entry{Key: key, State: r.State(store.Limit{}, now, v.s.options.MaxSkew)})
		}
		return len(entries) < limit
	})
	if err == nil && damaged > 0 {
		err = boltfile.Damagef("buckets left out because their records are damaged: %d; "+
			"\"brim verify\" names them, and Reset makes them empty and usable again", damaged)
	}
	return entries, err
}

// walk calls fn with each bucket from a key on, until fn returns false. The record of a damaged bucket
// is nil.
func (v *view) walk(from string, fn func(key string, r *store.Record) bool) error {
	c, err := v.Ascend(v.s.table, from)
	if err != nil {
		return err
	}
	for {
		key, value, ok, err := c.Next()
		if err != nil || !ok {
			return err
		}
		var record *store.Record
		if value != nil {
			if r, err := boltrecord.Decode(value, 0); err == nil {
				record = &r
			}
		}
		if !fn(key, record) {
			return nil
		}
	}
}

// explain returns the error of reading a record.
func explain(err error) error {
	if errors.Is(err, kv.ErrDamaged) {
		return boltrecord.Damagef("does not match its checksums")
	}
	return err
}
