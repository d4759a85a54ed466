package bolt

import (
	"context"
	"time"

	"github.com/brimgo/brim/internal/boltrecord"
	"github.com/brimgo/brim/internal/combine"
	"github.com/brimgo/brim/internal/kv"
	"github.com/brimgo/brim/internal/records"
	"github.com/brimgo/brim/store"
)

func (s *Store) newCombiner() (*combine.Combiner[records.Request, records.Answer], error) {
	o := &combine.Options{
		// While another goroutine writes, callers wait in the queue, where the end of their
		// contexts still takes them back.
		Before: func(int) error { return s.db.Lock(context.Background()) },
		After:  func(int) { s.db.Unlock() },
	}
	if s.options.Trace.Flush != nil {
		o.Flushed = s.wrote
	}
	return combine.New(s.flush, o)
}

// wrote tells Options.Trace of a flush.
func (s *Store) wrote(requests int, took time.Duration, err error) {
	s.options.Trace.Flush(store.Flush{Backend: backend, Requests: requests, Took: took, Err: err})
}

// flush decides a batch. The combiner holds the lock of the database.
func (s *Store) flush(_ int, batch []*records.Queued) {
	err := s.update(func(v *view) error {
		now := s.clock.Now()
		for _, r := range batch {
			v.Decide(r, now)
		}
		return nil
	})
	if err == nil {
		return
	}
	// Requests that failed by themselves get the error, too: they were decided on changes of the
	// same batch, such as the capture of a hold.
	for _, r := range batch {
		r.Out, r.Err = records.Answer{}, err
	}
}

// update runs fn in a transaction. The caller holds the lock of the database.
func (s *Store) update(fn func(v *view) error) error {
	return s.db.Update(func(tx *kv.Tx) error {
		if err := tx.Check(s.table); err != nil {
			return err
		}
		v := s.view(tx)
		err := fn(v)
		v.end()
		return err
	})
}

// view decides on the buckets in a transaction.
type view struct {
	records.View
	tx *kv.Tx
	s  *Store
}

func (s *Store) view(tx *kv.Tx) *view {
	return &view{records.View{Table: &table{tx, s.table}, MaxSkew: s.options.MaxSkew}, tx, s}
}

// end dates the changes of the view, and tells of records that were not believed.
func (v *view) end() {
	if v.s.options.Clock == nil {
		v.tx.Time = v.s.clock.Now()
	}
	if v.Skewed > 0 {
		v.s.options.Logger.Warn("bolt: buckets were dated further ahead of the clock than MaxSkew; "+
			"their time was set to the clock", "buckets", v.Skewed, "max_skew", v.s.options.MaxSkew)
	}
}

// table is the table of buckets in a transaction.
type table struct {
	tx *kv.Tx
	t  *kv.Table
}

func (t *table) Record(key string, now int64, room *store.Record) (*store.Record, error) {
	body, err := t.tx.Get(t.t, key)
	if err != nil {
		return nil, explain(err)
	}
	*room, err = boltrecord.Decode(body, now)
	return room, err
}

func (t *table) Put(key string, r *store.Record) { t.tx.Put(t.t, key, boltrecord.Encode(r)) }
func (t *table) Remove(key string) error         { return t.tx.Delete(t.t, key) }

func (t *table) Walk(from string, fn func(key string, r *store.Record) bool) error {
	c, err := t.tx.Ascend(t.t, from)
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
