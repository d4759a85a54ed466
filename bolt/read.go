package bolt

import (
	"context"
	"strings"

	"go.etcd.io/bbolt"

	"github.com/brimgo/brim/store"
)

// Read returns states as of the newest commit.
func (s *Store) Read(ctx context.Context, buckets ...store.Bucket) (states []store.State, err error) {
	if err := s.check(ctx); err != nil {
		return nil, store.Wrap(backend, "read", err)
	}
	err = s.read(func(records *bbolt.Bucket) error {
		now := s.clock.Now()
		states = make([]store.State, len(buckets))
		for i, b := range buckets {
			rec, err := lookup(records, b.Key, now)
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

// Scan lists buckets as of the newest commit. It fails if one of the listed buckets is damaged.
func (s *Store) Scan(ctx context.Context, prefix, after string, limit int) (entries []store.Entry, err error) {
	if err := s.check(ctx); err != nil {
		return nil, store.Wrap(backend, "scan", err)
	}
	err = s.read(func(records *bbolt.Bucket) (err error) {
		entries, err = s.scan(records, prefix, after, limit)
		return err
	})
	if err != nil {
		return nil, store.Wrap(backend, "scan", err)
	}
	return entries, nil
}

func (s *Store) scan(records *bbolt.Bucket, prefix, after string, limit int) (entries []store.Entry, err error) {
	now := s.clock.Now()
	c := records.Cursor()
	key, value := c.Seek([]byte(max(prefix, after)))
	if after != "" && string(key) == after {
		key, value = c.Next()
	}
	for ; key != nil && len(entries) < limit && strings.HasPrefix(string(key), prefix); key, value = c.Next() {
		rec, _, err := decodeRecord(key, value)
		if err != nil {
			return nil, err
		}
		st := rec.State(store.Limit{}, now, s.options.MaxSkew)
		entries = append(entries, store.Entry{Key: string(key), State: st})
	}
	return entries, nil
}

// lookup returns the record of key, or a new one if there is none.
func lookup(records *bbolt.Bucket, key string, now int64) (rec store.Record, err error) {
	k := []byte(key)
	value := records.Get(k)
	if value == nil {
		return store.NewRecord(now), nil
	}
	rec, _, err = decodeRecord(k, value)
	return rec, err
}

// decideFromCommitted answers op from the newest commit if the answer changes nothing; otherwise
// ok is false.
//
// The answer is exact: the newest commit holds all decisions that were acknowledged before this
// call, and this call may come before or after the decisions that are being committed meanwhile.
// It never grants an amount.
func (s *Store) decideFromCommitted(op *store.Op) (st store.State, ok bool, err error) {
	err = s.read(func(records *bbolt.Bucket) error {
		now := s.clock.Now()
		rec, err := lookup(records, op.Key, now)
		if err != nil {
			return err
		}
		var effect store.Effect
		st, effect, err = rec.Fill(op, now, s.options.MaxSkew)
		ok = effect == 0 && (!st.Accepted || op.Amount == 0 && op.Hold == 0)
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
