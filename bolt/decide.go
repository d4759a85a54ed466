package bolt

import (
	"context"
	"time"

	"github.com/brimgo/brim/internal/boltrecord"
	"github.com/brimgo/brim/internal/combine"
	"github.com/brimgo/brim/internal/kv"
	"github.com/brimgo/brim/store"
)

// request is a caller's request to the combiner.
type request struct {
	kind kind
	op   store.Op
	txns []store.Txn
	keys []string // to delete, or to prune
}

type kind uint8

const (
	fill kind = iota
	apply
	remove
	prune
)

// reply is the answer to a request.
type reply struct {
	state   store.State
	results []store.Result
	pruned  int64
}

func (s *Store) newCombiner() (*combine.Combiner[request, reply], error) {
	o := &combine.Options{
		// While another goroutine writes, callers wait in the queue, where the end of their contexts
		// still takes them back.
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
func (s *Store) flush(_ int, batch []*combine.Request[request, reply]) {
	err := s.update(func(v *view) error {
		now := s.clock.Now()
		for _, r := range batch {
			v.decide(r, now)
		}
		return nil
	})
	if err == nil {
		return
	}
	// Requests that failed by themselves get the error, too: they were decided on changes of the
	// same batch, such as the capture of a hold.
	for _, r := range batch {
		r.Out, r.Err = reply{}, err
	}
}

// update runs fn in a transaction. The caller holds the lock of the database.
func (s *Store) update(fn func(v *view) error) error {
	return s.db.Update(func(tx *kv.Tx) error {
		if err := tx.Check(s.table); err != nil {
			return err
		}
		v := view{Tx: tx, s: s}
		err := fn(&v)
		v.end()
		return err
	})
}

// view decides on the buckets in a transaction.
type view struct {
	*kv.Tx
	s      *Store
	skewed int // number of records whose time was not believed
}

// end dates the changes of the view, and tells of records that were not believed.
func (v *view) end() {
	if v.s.options.Clock == nil {
		v.Time = v.s.clock.Now()
	}
	if v.skewed > 0 {
		v.s.options.Logger.Warn("bolt: buckets were dated further ahead of the clock than MaxSkew; "+
			"their time was set to the clock", "buckets", v.skewed, "max_skew", v.s.options.MaxSkew)
	}
}

// decide answers one request of a batch. An error of one request leaves the others alone.
func (v *view) decide(r *combine.Request[request, reply], now int64) {
	switch r.In.kind {
	case fill:
		r.Out.state, r.Err = v.fill(&r.In.op, now)
	case apply:
		r.Out.results = v.apply(r.In.txns, now)
	case remove:
		r.Err = v.remove(r.In.keys)
	case prune:
		r.Out.pruned, r.Err = v.prune(r.In.keys, now)
	}
}

func (v *view) record(key string, now int64) (r store.Record, err error) {
	body, err := v.Get(v.s.table, key)
	if err != nil {
		return r, explain(err)
	}
	return boltrecord.Decode(body, now)
}

// note stores a record if a decision changed it.
func (v *view) note(key string, r *store.Record, effect store.Effect) {
	if effect&store.Write != 0 {
		v.Put(v.s.table, key, boltrecord.Encode(r))
	}
	if effect&store.Skewed != 0 {
		v.skewed++
	}
}

func (v *view) fill(op *store.Op, now int64) (st store.State, err error) {
	r, err := v.record(op.Key, now)
	if err != nil {
		return st, err
	}
	st, effect, err := r.Fill(op, now, v.s.options.MaxSkew)
	v.note(op.Key, &r, effect)
	return st, err
}

func (v *view) apply(txns []store.Txn, now int64) []store.Result {
	results := make([]store.Result, len(txns))
	for i, txn := range txns {
		results[i] = v.transact(txn, now)
	}
	return results
}

func (v *view) transact(txn store.Txn, now int64) store.Result {
	records, byKey := make([]*store.Record, len(txn)), make(map[string]*store.Record, len(txn))
	for i := range txn {
		r := byKey[txn[i].Key]
		if r == nil {
			stored, err := v.record(txn[i].Key, now)
			if err != nil {
				return store.Result{Err: err}
			}
			r = &stored
			byKey[txn[i].Key] = r
		}
		records[i] = r
	}
	res, effects := store.Decide(txn, records, now, v.s.options.MaxSkew)
	for i, r := range records {
		v.note(txn[i].Key, r, effects[i])
	}
	return res
}

func (v *view) read(buckets []store.Bucket) ([]store.State, error) {
	now, states := v.s.clock.Now(), make([]store.State, len(buckets))
	for i, b := range buckets {
		r, err := v.record(b.Key, now)
		if err != nil {
			return nil, err
		}
		states[i] = r.State(b.Limit, now, v.s.options.MaxSkew)
	}
	return states, nil
}

// remove removes buckets, damaged ones included: no other call can remove those.
func (v *view) remove(keys []string) error {
	for _, key := range keys {
		if err := v.Delete(v.s.table, key); err != nil {
			return err
		}
	}
	return nil
}

// prune removes the buckets of keys that have expired by now, and returns their number.
func (v *view) prune(keys []string, now int64) (n int64, err error) {
	for _, key := range keys {
		body, err := v.Get(v.s.table, key)
		if err != nil || body == nil {
			continue
		}
		if r, err := boltrecord.Decode(body, now); err == nil && r.Expired(now, v.s.options.MaxSkew) {
			if err := v.Delete(v.s.table, key); err != nil {
				return 0, err
			}
			n++
		}
	}
	return n, nil
}
