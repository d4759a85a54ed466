package records

import (
	"time"

	"github.com/brimgo/brim/internal/combine"
	"github.com/brimgo/brim/store"
)

// Table is the buckets in a transaction.
type Table interface {
	// Record returns the record of a bucket, or a new one with the time now if there is none. It
	// may put the record into room. The error of a damaged record fails the calls that need its
	// bucket, and no others.
	Record(key string, now int64, room *store.Record) (*store.Record, error)
	// Put stores a record that Record has returned and a decision has changed.
	Put(key string, r *store.Record)
	// Remove removes a bucket, also a damaged one: no other call can remove those.
	Remove(key string) error
	// Walk calls fn with each bucket from a key on, in the order of keys, until fn returns false.
	// The record of a damaged bucket is nil.
	Walk(from string, fn func(key string, r *store.Record) bool) error
}

// View decides on the buckets in a transaction.
type View struct {
	Table
	MaxSkew time.Duration
	Skewed  int // number of records whose time was not believed

	room store.Record // so that a lone fill allocates none
}

// Request is a caller's request to the combiner of a store.
type Request struct {
	Kind Kind
	Op   store.Op
	Txns []store.Txn
	Keys []string // to delete, or to prune
}

// Kind is the kind of a [Request].
type Kind uint8

// The kinds.
const (
	Fill Kind = iota
	Apply
	Remove
	Prune
)

// Answer is the answer to a [Request].
type Answer struct {
	State   store.State
	Results []store.Result
	Pruned  int64
}

// Queued is a request in a batch.
type Queued = combine.Request[Request, Answer]

// AllKeys returns the keys of the buckets that a batch needs. A key may come twice.
func AllKeys(batch []*Queued) []string {
	keys := make([]string, 0, len(batch))
	for _, r := range batch {
		if r.In.Kind == Fill {
			keys = append(keys, r.In.Op.Key)
		}
		keys = append(append(keys, r.In.Keys...), KeysOf(r.In.Txns)...)
	}
	return keys
}

// KeysOf returns the keys of the buckets that transactions need.
func KeysOf(txns []store.Txn) (keys []string) {
	for _, txn := range txns {
		for i := range txn {
			keys = append(keys, txn[i].Key)
		}
	}
	return keys
}

// Decide answers one request of a batch. An error of one request leaves the others alone.
func (v *View) Decide(r *Queued, now int64) {
	switch r.In.Kind {
	case Fill:
		r.Out.State, r.Err = v.Fill(&r.In.Op, now)
	case Apply:
		r.Out.Results = v.Apply(r.In.Txns, now)
	case Remove:
		r.Err = v.RemoveAll(r.In.Keys)
	case Prune:
		r.Out.Pruned, r.Err = v.Prune(r.In.Keys, now)
	}
}

// note stores a record if a decision has changed it.
func (v *View) note(key string, r *store.Record, effect store.Effect) {
	if effect&store.Write != 0 {
		v.Put(key, r)
	}
	if effect&store.Skewed != 0 {
		v.Skewed++
	}
}

// Fill decides one operation.
func (v *View) Fill(op *store.Op, now int64) (st store.State, err error) {
	r, err := v.Record(op.Key, now, &v.room)
	if err != nil {
		return st, err
	}
	st, effect, err := r.Fill(op, now, v.MaxSkew)
	v.note(op.Key, r, effect)
	return st, err
}

// Ask decides one operation if the answer changes nothing; otherwise ok is false.
func (v *View) Ask(op *store.Op, now int64) (st store.State, ok bool, err error) {
	r, err := v.Record(op.Key, now, &v.room)
	if err != nil {
		return st, false, err
	}
	copied := *r
	st, effect, err := copied.Fill(op, now, v.MaxSkew)
	return st, effect == 0, err
}

// Apply decides transactions.
func (v *View) Apply(txns []store.Txn, now int64) []store.Result {
	results := make([]store.Result, len(txns))
	for i, txn := range txns {
		results[i] = v.transact(txn, now)
	}
	return results
}

func (v *View) transact(txn store.Txn, now int64) store.Result {
	records, byKey := make([]*store.Record, len(txn)), make(map[string]*store.Record, len(txn))
	for i := range txn {
		r := byKey[txn[i].Key]
		if r == nil {
			var err error
			if r, err = v.Record(txn[i].Key, now, new(store.Record)); err != nil {
				return store.Result{Err: err}
			}
			byKey[txn[i].Key] = r
		}
		records[i] = r
	}
	res, effects := store.Decide(txn, records, now, v.MaxSkew)
	for i, r := range records {
		v.note(txn[i].Key, r, effects[i])
	}
	return res
}

// States returns the states of buckets.
func (v *View) States(buckets []store.Bucket, now int64) ([]store.State, error) {
	states := make([]store.State, len(buckets))
	for i, b := range buckets {
		r, err := v.Record(b.Key, now, &v.room)
		if err != nil {
			return nil, err
		}
		states[i] = r.State(b.Limit, now, v.MaxSkew)
	}
	return states, nil
}

// RemoveAll removes buckets.
func (v *View) RemoveAll(keys []string) error {
	for _, key := range keys {
		if err := v.Remove(key); err != nil {
			return err
		}
	}
	return nil
}

// Prune removes the buckets of keys that have expired by now, and returns their number.
func (v *View) Prune(keys []string, now int64) (n int64, err error) {
	for _, key := range keys {
		if r, err := v.Record(key, now, &v.room); err != nil || !r.Expired(now, v.MaxSkew) {
			continue
		}
		if err := v.Remove(key); err != nil {
			return 0, err
		}
		n++
	}
	return n, nil
}
