package sqlite

import (
	"context"
	"errors"

	"github.com/brimgo/brim/internal/combine"
	"github.com/brimgo/brim/internal/sqliterun"
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

type queued = combine.Request[request, reply]

// newCombiner returns the combiner of the calls that may write. While the lane waits for the write
// lock, callers wait in the queue, where the end of their contexts still takes them back.
func (s *Store) newCombiner() (*combine.Combiner[request, reply], error) {
	var tx *sqliterun.Tx
	flush := func(_ int, batch []*queued) { tx = s.flush(tx, batch) }
	return combine.New(flush, &combine.Options{
		Before: func(int) (err error) { tx, err = s.run.Begin(); return err },
		After: func(int) {
			if tx != nil {
				tx.End()
			}
		},
		Flushed: s.run.Flushed(),
	})
}

// flush decides a batch in tx, and returns the transaction to end, or nil. If a damaged page fails the
// batch, each request is decided by itself, so that only those fail that need the page.
func (s *Store) flush(tx *sqliterun.Tx, batch []*queued) *sqliterun.Tx {
	err := s.decide(tx, batch)
	if err == nil {
		return tx
	}
	alone := len(batch) > 1 && errors.Is(err, store.ErrCorrupt)
	if alone {
		tx.End()
	}
	for _, r := range batch {
		r.Out, r.Err = reply{}, err
		if alone {
			s.decideAlone(r)
		}
	}
	if alone {
		return nil
	}
	return tx
}

func (s *Store) decideAlone(r *queued) {
	tx, err := s.run.Begin()
	if err == nil {
		r.Err = nil
		err = s.decide(tx, []*queued{r})
		tx.End()
	}
	if err != nil {
		r.Out, r.Err = reply{}, err
	}
}

// decide decides a batch, and commits if anything has changed. An error is that of every request.
func (s *Store) decide(tx *sqliterun.Tx, batch []*queued) error {
	keys := make([]string, 0, len(batch))
	for _, r := range batch {
		switch r.In.kind {
		case fill:
			keys = append(keys, r.In.op.Key)
		case apply:
			keys = append(keys, keysOf(r.In.txns)...)
		case remove, prune:
			keys = append(keys, r.In.keys...)
		}
	}
	v := s.view(s.sql.On(context.Background(), tx.Tx))
	if err := v.load(keys); err != nil {
		return sqliterun.Explain(err)
	}
	now := s.run.Clock.Now() // with the lock: no other process decides earlier
	for _, r := range batch {
		v.decide(r, now)
	}
	changed, err := v.end()
	if err == nil && changed {
		return tx.Commit()
	}
	return sqliterun.Explain(err)
}

// decide answers one request of a batch. An error of one request leaves the others alone.
func (v *view) decide(r *queued, now int64) {
	switch r.In.kind {
	case fill:
		r.Out.state, r.Err = v.fill(&r.In.op, now)
	case apply:
		r.Out.results = v.apply(r.In.txns, now)
	case remove:
		v.remove(r.In.keys)
	case prune:
		r.Out.pruned = v.prune(r.In.keys, now)
	}
}

func (v *view) fill(op *store.Op, now int64) (st store.State, err error) {
	r, err := v.record(op.Key, now)
	if err != nil {
		return st, err
	}
	st, effect, err := r.Fill(op, now, v.s.options.MaxSkew)
	v.note(op.Key, effect)
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
	records := make([]*store.Record, len(txn))
	for i := range txn {
		r, err := v.record(txn[i].Key, now)
		if err != nil {
			return store.Result{Err: err}
		}
		records[i] = r
	}
	res, effects := store.Decide(txn, records, now, v.s.options.MaxSkew)
	for i := range records {
		v.note(txn[i].Key, effects[i])
	}
	return res
}

func (v *view) states(buckets []store.Bucket, now int64) ([]store.State, error) {
	states := make([]store.State, len(buckets))
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
func (v *view) remove(keys []string) {
	for _, key := range keys {
		v.rows[key].drop()
	}
}

// prune removes the buckets of keys that have expired by now, and returns their number.
func (v *view) prune(keys []string, now int64) (n int64) {
	for _, key := range keys {
		r := v.rows[key]
		if r.exists && r.damage == nil && r.rec.Expired(now, v.s.options.MaxSkew) {
			r.drop()
			n++
		}
	}
	return n
}

func keysOf(txns []store.Txn) (keys []string) {
	for _, txn := range txns {
		for i := range txn {
			keys = append(keys, txn[i].Key)
		}
	}
	return keys
}
