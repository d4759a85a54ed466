package redisstore

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/brimgo/brim/store"
)

// Statuses of keys in the answer of decide.lua, in the place of a length.
const (
	absent  = 0
	moved   = 252 // in a cluster, the key has moved to another server
	foreign = 253 // the key holds a value of another type
	damaged = 254
	failed  = 255 // the server refused this write after others of the script
)

var (
	errForeign = fmt.Errorf("%w: the key of the bucket holds a value of another type; remove that key, or choose "+
		"another Options.Prefix", store.ErrCorrupt)
	errDamaged = fmt.Errorf("%w: the key of the bucket holds a string that is no record of a bucket; delete the bucket, "+
		"or choose another Options.Prefix", store.ErrCorrupt)
	errFailed = fmt.Errorf("%w: the server refused a write in the middle of a script", store.ErrUnknownOutcome)
	errFormat = fmt.Errorf("%w: the server's answer is not that of the script", store.ErrUnknownOutcome)
)

// record is a bucket in an answer.
type record struct {
	store.Record
	status byte // absent, or a length, or a failure
}

// err returns the reason why the bucket could not be decided on, or nil.
func (r *record) err() error {
	switch r.status {
	case foreign:
		return errForeign
	case damaged:
		return errDamaged
	case failed:
		return errFailed
	}
	return nil
}

// reply decodes the answer of decide.lua.
func (b *batch) reply(text string) (clock int64, recs []record, err error) {
	if len(text) < 8 {
		return 0, nil, errFormat
	}
	clock = int64(math.Float64frombits(binary.LittleEndian.Uint64([]byte(text[:8]))))
	text = text[8:]
	recs = make([]record, len(b.keys))
	for i := range recs {
		if text == "" {
			return 0, nil, errFormat
		}
		recs[i].status = text[0]
		text = text[1:]
		switch length := int(recs[i].status); {
		case length == absent:
			recs[i].Record = store.NewRecord(clock)
		case length >= moved:
		case length < baseLength || length > len(text):
			return 0, nil, errFormat
		default:
			var whole bool
			if recs[i].Record, whole = parse([]byte(text[:length])); !whole {
				return 0, nil, errFormat
			}
			text = text[length:]
		}
	}
	if text != "" {
		return 0, nil, errFormat
	}
	return clock, recs, nil
}

// settle repeats the decisions of the script on the records that it found, in its order, and so
// answers the requests. It returns those whose keys have moved, of which nothing was applied, and
// the number of buckets whose time was not believed.
func (b *batch) settle(clock int64, recs []record, maxSkew time.Duration) (elsewhere []*fillRequest, wrote, skewed int) {
	count := func(effect store.Effect) (did bool) {
		if effect&store.Skewed != 0 {
			skewed++
		}
		if did = effect&store.Write != 0; did {
			wrote++
		}
		return did
	}
	for i := range b.groups {
		g := &b.groups[i]
		rec := &recs[g.key]
		if rec.status == moved {
			elsewhere = append(elsewhere, g.reqs...)
			continue
		}
		for _, r := range g.reqs {
			if r.Err = rec.err(); r.Err != nil {
				continue
			}
			var effect store.Effect
			r.Out.state, effect, r.Err = rec.Fill(&r.In.op, clock, maxSkew)
			r.Out.wrote = count(effect)
		}
	}
	for _, r := range b.rest {
		hasMoved := false
		for key := range r.In.keys {
			hasMoved = hasMoved || recs[b.number[key]].status == moved
		}
		if hasMoved {
			elsewhere = append(elsewhere, r)
			continue
		}
		b.settleRest(r, clock, recs, maxSkew, count)
	}
	return elsewhere, wrote, skewed
}

func (b *batch) settleRest(
	r *fillRequest, clock int64, recs []record, maxSkew time.Duration, count func(store.Effect) bool,
) {
	q, out := &r.In, &r.Out
	switch {
	case q.reads != nil:
		out.states, out.found = make([]store.State, len(q.reads)), make([]bool, len(q.reads))
		for i, bucket := range q.reads {
			rec := &recs[b.number[bucket.Key]]
			if err := rec.err(); err != nil {
				out.damage = cmp.Or(out.damage, err)
				continue
			}
			// The record is as the decisions before this one left it.
			out.states[i], out.found[i] = rec.State(bucket.Limit, clock, maxSkew), rec.Limit != store.Limit{}
		}
	case q.deletes != nil:
		for _, key := range q.deletes {
			rec := &recs[b.number[key]]
			if rec.status == damaged {
				rec.status = absent
			}
			if err := rec.err(); err != nil {
				r.Err = errors.Join(r.Err, err)
				continue
			}
			rec.Record = store.NewRecord(clock)
			out.wrote = count(store.Write)
		}
	case q.prunes != nil:
		for _, key := range q.prunes {
			rec := &recs[b.number[key]]
			if rec.err() == nil && rec.status != absent && rec.Expired(clock, maxSkew) {
				rec.Record, rec.status = store.NewRecord(clock), absent
				out.removed++
				out.wrote = count(store.Write)
			}
		}
	case q.txns != nil:
		out.results = make([]store.Result, len(q.txns))
		for i, txn := range q.txns {
			out.results[i] = b.settleTxn(r, txn, clock, recs, maxSkew, count)
		}
	default:
		rec := &recs[b.number[q.op.Key]]
		if r.Err = rec.err(); r.Err == nil {
			var effect store.Effect
			out.state, effect, r.Err = rec.Fill(&q.op, clock, maxSkew)
			out.wrote = count(effect)
		}
	}
}

func (b *batch) settleTxn(
	r *fillRequest, txn store.Txn, clock int64, recs []record, maxSkew time.Duration, count func(store.Effect) bool,
) store.Result {
	if unknownMode(txn) {
		return store.Result{Err: errors.ErrUnsupported}
	}
	found := make([]*store.Record, len(txn))
	for i := range txn {
		rec := &recs[b.number[txn[i].Key]]
		if err := rec.err(); err != nil {
			return store.Result{Err: err}
		}
		found[i] = &rec.Record
	}
	res, effects := store.Decide(txn, found, clock, maxSkew)
	for _, effect := range effects {
		r.Out.wrote = count(effect) || r.Out.wrote
	}
	return res
}
