package bolt

import (
	"context"
	"strings"

	"go.etcd.io/bbolt"

	"github.com/brimgo/brim/internal/boltfile"
	"github.com/brimgo/brim/internal/paging"
	"github.com/brimgo/brim/store"
)

// Read returns states as of the newest commit.
func (s *Store) Read(ctx context.Context, buckets ...store.Bucket) (states []store.State, err error) {
	if err := s.check(ctx); err != nil {
		return nil, store.Wrap(backend, "read", err)
	}
	if s.logged != nil {
		states, err = s.logged.mem.read(buckets, true)
		return states, store.Wrap(backend, "read", err)
	}
	err = s.read(func(records *bbolt.Bucket) error {
		now := s.clock.Now()
		states = make([]store.State, len(buckets))
		for i, b := range buckets {
			rec, err := s.lookup(records, b.Key, now)
			if err != nil {
				return err
			}
			states[i] = rec.State(b.Limit, now, s.options.MaxSkew)
		}
		return nil
	})
	if err != nil {
		return nil, store.Wrap(backend, "read", err)
	}
	return states, nil
}

// scan lists intact buckets. The error tells the number of damaged buckets among them.
func (s *Store) scan(records *bbolt.Bucket, prefix, after string, limit int) (entries []store.Entry, err error) {
	now, damaged := s.clock.Now(), 0
	c := records.Cursor()
	key, value := c.Seek([]byte(max(prefix, after)))
	if after != "" && string(key) == after {
		key, value = c.Next()
	}
	for ; key != nil && len(entries) < limit && strings.HasPrefix(string(key), prefix); key, value = c.Next() {
		rec, _, err := s.layout.decodeRecord(key, value)
		if err != nil {
			damaged++
			continue
		}
		st := rec.State(store.Limit{}, now, s.options.MaxSkew)
		entries = append(entries, store.Entry{Key: string(key), State: st})
	}
	if damaged > 0 {
		err = boltfile.Damagef("buckets left out because their records are damaged: %d; "+
			"\"brim verify\" names them, and Reset makes them empty and usable again", damaged)
	}
	return entries, err
}

// lookup returns the record of key, or a new one if there is none.
func (s *Store) lookup(records *bbolt.Bucket, key string, now int64) (rec store.Record, err error) {
	k := []byte(key)
	value := records.Get(k)
	if value == nil {
		return store.NewRecord(now), nil
	}
	rec, _, err = s.layout.decodeRecord(k, value)
	return rec, err
}

// decideFromCommitted answers op from the newest commit if the answer changes nothing; otherwise
// ok is false.
//
// The answer is exact: the newest commit holds all decisions that were acknowledged before this
// call, and this call may come before or after the decisions that are being committed meanwhile.
// It never grants an amount.
func (s *Store) decideFromCommitted(op *store.Op) (st store.State, ok bool, err error) {
	if s.logged != nil {
		return s.logged.mem.ask(op)
	}
	err = s.read(func(records *bbolt.Bucket) error {
		now := s.clock.Now()
		rec, err := s.lookup(records, op.Key, now)
		if err != nil {
			return err
		}
		var effect store.Effect
		st, effect, err = rec.Fill(op, now, s.options.MaxSkew)
		ok = effect == 0
		return err
	})
	return st, ok, err
}

// read runs fn on the records as of the newest commit.
func (s *Store) read(fn func(records *bbolt.Bucket) error) error {
	return s.file.View(func(tx *bbolt.Tx) error {
		records, _, _, err := s.layout.open(tx)
		if err != nil {
			return err
		}
		return fn(records)
	})
}

// settled makes the file hold all decisions that were acknowledged before the call.
func (s *Store) settled(ctx context.Context) error {
	err := s.check(ctx)
	if err == nil && s.logged != nil {
		err = s.logged.sync(ctx)
	}
	return err
}

// Visit visits the buckets in the file, in byte order of key, after it has all decisions that were
// acknowledged before the call. Later decisions may not show. See [store.Store].
func (s *Store) Visit(ctx context.Context, prefix string, f func(store.Entry) bool) error {
	err := s.settled(ctx)
	if err == nil {
		err = paging.Visit(func(after string, limit int) (entries []store.Entry, err error) {
			if err := s.check(ctx); err != nil {
				return nil, err
			}
			err = s.read(func(records *bbolt.Bucket) (err error) {
				entries, err = s.scan(records, prefix, after, limit)
				return err
			})
			return entries, err
		}, f)
	}
	return store.Wrap(backend, "visit", err)
}
