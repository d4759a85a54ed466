package redisstore

import (
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/brimgo/brim/store"
)

var (
	errDamaged = fmt.Errorf("%w: the key of the bucket holds a text that is no bucket; delete the bucket, "+
		"or choose another Options.Prefix", store.ErrCorrupt)
	errFailed = fmt.Errorf("%w: the server refused a write in the middle of a script", store.ErrUnknownOutcome)
	errFormat = fmt.Errorf("%w: the server's answer is not that of the script", store.ErrUnknownOutcome)
	errMoved  = errors.New("in a cluster, the key has moved to another server")
)

// record is a bucket in an answer.
type record struct {
	store.Record
	err error // why the bucket could not be decided on, or written
	// unwritten is set if the server refused to write this bucket, and has written others.
	unwritten bool
}

// reply decodes the answer of decide.lua to a call.
func (b *batch) reply(c *call, patience time.Duration) (clock int64, recs []record, err error) {
	reply := c.reply
	if len(reply) != 1+len(b.keys) {
		return 0, nil, errFormat
	}
	clock, whole := reply[0].(int64)
	recs = make([]record, len(b.keys))
	for i := range recs {
		rec := &recs[i]
		switch v := reply[i+1].(type) {
		case nil:
			rec.Record = store.NewRecord(clock)
		case string:
			var ok bool
			rec.Record, ok = parse(v)
			whole = whole && ok
		case redis.Error:
			switch meaning := read(v).verdict; {
			case v.Error() == "DAMAGED":
				rec.err = errDamaged
			case c.script == crossScript && (meaning == redirect || meaning == split || meaning == again):
				rec.err = errMoved
			default:
				rec.err = explain(nil, v, patience)
			}
		case []any:
			rec.unwritten = true
			if refusal, ok := v[0].(redis.Error); ok {
				rec.err = explain(nil, refusal, patience)
			} else {
				whole = false
			}
		default:
			whole = false
		}
	}
	if !whole {
		return 0, nil, errFormat
	}
	return clock, recs, nil
}

// repeat carries out the decisions of the script on the records that it found, in its order, and so
// answers the requests. It returns those whose keys have moved, of which nothing was applied, the
// number of requests that changed a record, and that of those which found a time not believed.
func (b *batch) repeat(clock int64, recs []record, maxSkew time.Duration) (elsewhere []*fillRequest, wrote, skewed int) {
	for _, group := range b.groups {
		for _, r := range group {
			effect, err := b.decide(&r.In, &r.Out, clock, recs, maxSkew)
			if err == errMoved {
				elsewhere = append(elsewhere, r)
				continue
			}
			if r.Err = err; r.In.txn != nil {
				r.Err, r.Out.result.Err = nil, err
			}
			if r.Out.wrote = effect&store.Write != 0; r.Out.wrote {
				wrote++
			}
			if effect&store.Skewed != 0 {
				skewed++
			}
		}
	}
	return elsewhere, wrote, skewed
}

// decide answers a request from the records of a batch, and changes them.
func (b *batch) decide(q *request, out *answer, clock int64, recs []record, maxSkew time.Duration) (all store.Effect, err error) {
	ops := q.ops()
	var found []*store.Record // of a transaction
	for i := range ops {
		rec := &recs[b.number[ops[i].Key]]
		if q.txn != nil {
			found = append(found, &rec.Record)
		}
		switch {
		case rec.err == nil, err == errMoved:
		case rec.unwritten && len(ops) > 1:
			err = errFailed // others of the transaction may be written
		default:
			err = rec.err
		}
	}
	rec, op := &recs[b.number[ops[0].Key]], &ops[0]
	switch {
	case err == errMoved:
	case op.Mode == modeDelete && (err == nil || err == errDamaged), op.Mode == modePrune && err == nil && rec.Expired(clock, maxSkew):
		*rec, out.found = record{Record: store.NewRecord(clock)}, true
		return store.Write, nil
	case op.Mode == modePrune:
		return 0, nil
	case err != nil:
	case op.Mode == modeRead: // the record is as the decisions before this one left it
		out.state, out.found = rec.State(op.Limit, clock, maxSkew), exists(&rec.Record)
	case q.txn == nil:
		out.state, all, err = rec.Fill(op, clock, maxSkew)
	default:
		var effects []store.Effect
		out.result, effects = store.Decide(ops, found, clock, maxSkew)
		for _, effect := range effects {
			all |= effect
		}
		err = out.result.Err
	}
	return all, err
}
