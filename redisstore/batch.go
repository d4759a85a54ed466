package redisstore

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"
	"time"

	"github.com/brimgo/brim/internal/combine"
	"github.com/brimgo/brim/store"
)

// request is a call, or the part of a call that one script decides. Exactly one of the fields but
// since is set.
type request struct {
	op      store.Op       // of Fill, if nothing else is set
	txns    []store.Txn    // of Apply
	reads   []store.Bucket // of Read
	deletes []string
	prunes  []string

	since time.Time // the call has waited for its script since then
}

// answer is the answer to a request.
type answer struct {
	state   store.State
	results []store.Result
	states  []store.State // of reads
	found   []bool        // of reads: whether the bucket exists and is whole
	damage  error         // of reads: that of a bucket that is not whole
	removed int64         // of prunes
	wrote   bool          // whether the script changed a record for the request
}

type fillRequest = combine.Request[request, answer]

// keys yields the keys of the request's buckets.
func (q *request) keys(yield func(string) bool) {
	switch {
	case q.txns != nil:
		for _, txn := range q.txns {
			for i := range txn {
				if !yield(txn[i].Key) {
					return
				}
			}
		}
	case q.reads != nil:
		for i := range q.reads {
			if !yield(q.reads[i].Key) {
				return
			}
		}
	case q.deletes != nil:
		for _, key := range q.deletes {
			if !yield(key) {
				return
			}
		}
	case q.prunes != nil:
		for _, key := range q.prunes {
			if !yield(key) {
				return
			}
		}
	default:
		yield(q.op.Key)
	}
}

// alone reports whether the request is a Fill.
func (q *request) alone() bool {
	return q.txns == nil && q.reads == nil && q.deletes == nil && q.prunes == nil
}

// asks reports whether no answer to the request writes anything.
func (q *request) asks() bool {
	switch {
	case q.alone():
		return q.op.Mode == store.Ask
	case q.txns != nil:
		return !slices.ContainsFunc(q.txns, func(txn store.Txn) bool { return !txn.Asks() })
	}
	return q.reads != nil
}

// plain reports whether the request is a TryFillup, which scripts decide in groups.
func (q *request) plain() bool {
	return q.alone() && q.op.Mode == store.IfFits && q.op.Amount > 0 && q.op.Hold == 0 && q.op.Ceiling == 0 &&
		q.op.BlockFor == 0
}

// Codes of operations beside the modes of package store; see decide.lua.
const (
	prune byte = iota + byte(store.Unblock) + 1
	remove
)

// sinks marks an operation with CeilingAt.
const sinks = 16

// batch is the requests that one script decides. It is reused from flush to flush.
type batch struct {
	prefix string
	reqs   []*fillRequest
	keys   []string       // of Redis
	number map[string]int // of each key of a bucket: its index in keys
	groups []group
	group  map[string]int // of a key: its index in groups
	solo   int            // the first groups, whose keys have no other requests
	rest   []*fillRequest
	limits limits
	body   []byte // of the input, behind the limits
	input  []byte
	txns   int
}

// group is TryFillups of one key by one limit, in ascending order of amount.
type group struct {
	key  int
	reqs []*fillRequest
}

func newBatch(prefix string) *batch {
	return &batch{prefix: prefix, number: make(map[string]int), group: make(map[string]int), limits: newLimits()}
}

// take moves requests into the batch, until it has as many keys as one script may have, and returns
// the others.
func (b *batch) take(reqs []*fillRequest, size int) (others []*fillRequest) {
	b.reqs, b.keys, b.rest = b.reqs[:0], b.keys[:0], b.rest[:0]
	for i := range b.groups {
		clear(b.groups[i].reqs)
		b.groups[i].reqs = b.groups[i].reqs[:0]
	}
	b.groups = b.groups[:0]
	clear(b.number)
	clear(b.group)
	operations := 0
	for n, r := range reqs {
		more := 0
		if !r.In.plain() {
			for range r.In.keys {
				more++
			}
		} else if _, there := b.group[r.In.op.Key]; !there {
			more = 1
		}
		if operations > 0 && operations+more > size {
			others = reqs[n:]
			break
		}
		operations += more
		b.add(r)
	}
	b.numberKeys()
	return others
}

func (b *batch) add(r *fillRequest) {
	b.reqs = append(b.reqs, r)
	if !r.In.plain() {
		b.rest = append(b.rest, r)
		return
	}
	i, there := b.group[r.In.op.Key]
	switch {
	case !there:
		i = len(b.groups)
		b.group[r.In.op.Key] = i
		if i < cap(b.groups) {
			b.groups = b.groups[:i+1] // with the slice of an earlier flush
		} else {
			b.groups = append(b.groups, group{})
		}
	case b.groups[i].reqs[0].In.op.Limit != r.In.op.Limit:
		b.rest = append(b.rest, r)
		return
	}
	b.groups[i].reqs = append(b.groups[i].reqs, r)
}

// numberKeys numbers the keys of the batch: first those that have a group and no other request.
func (b *batch) numberKeys() {
	for _, r := range b.rest {
		for key := range r.In.keys {
			b.number[key] = -1
		}
	}
	b.solo = 0
	for i := range b.groups {
		if _, shared := b.number[b.groups[i].reqs[0].In.op.Key]; !shared {
			b.groups[b.solo], b.groups[i] = b.groups[i], b.groups[b.solo]
			b.solo++
		}
	}
	for i := range b.groups {
		key := b.groups[i].reqs[0].In.op.Key
		b.groups[i].key = len(b.keys)
		b.number[key] = len(b.keys)
		b.keys = append(b.keys, b.prefix+key)
	}
	for _, r := range b.rest {
		for key := range r.In.keys {
			if b.number[key] < 0 {
				b.number[key] = len(b.keys)
				b.keys = append(b.keys, b.prefix+key)
			}
		}
	}
}

// encode writes ARGV[1] of decide.lua, all numbers little-endian:
//
//	u8   1 if the time comes with the batch
//	f64  that time
//	f64  MaxSkew in microseconds
//	f64  seconds between the expiry of a bucket and that of its key; -1 if keys do not expire
//	u16  groups for the first keys, which have no other operations, each:
//	     u16 key, u16 limit, f64 amount, u32 how often,
//	     u16 further amounts, each: f64 amount, u32 how often
//	u16  further groups
//	u16  transactions, each: u16 operations, each: u16 key, u8 code, u16 limit, f64 amount,
//	     f64 hold, f64 ceiling, f64 time of the ceiling, f64 and f64 duration of the block
//	u16  limits, each: u8 length of the form, f64 capacity, f64 leak rate, the form of limit.go
//
// The four u16 stand together. The limits follow them, then the groups.
func (b *batch) encode(clock *int64, maxSkew time.Duration) {
	in := b.input[:0]
	b.txns = 0 // of an attempt before
	grace := float64((maxSkew+time.Minute)/time.Second) + 1
	if clock == nil {
		in = append(in, 0)
		in = double(in, 0)
	} else {
		in = append(in, 1)
		in = double(in, float64(*clock))
		grace = -1
	}
	in = double(in, float64(maxSkew.Microseconds()))
	in = double(in, grace)
	b.limits.reset()
	body := b.body[:0]
	for i := range b.groups {
		body = b.groups[i].encode(body, &b.limits)
	}
	for _, r := range b.rest {
		body = b.encodeRest(body, &r.In)
	}
	for _, count := range [...]int{b.solo, len(b.groups) - b.solo, b.txns, len(b.limits.number)} {
		in = binary.LittleEndian.AppendUint16(in, uint16(count))
	}
	in = append(in, b.limits.listed...)
	b.input, b.body = append(in, body...), body
}

func double(in []byte, v float64) []byte {
	return binary.LittleEndian.AppendUint64(in, math.Float64bits(v))
}

func (g *group) encode(in []byte, ls *limits) []byte {
	if len(g.reqs) > 1 {
		slices.SortStableFunc(g.reqs, func(a, b *fillRequest) int { return cmp.Compare(a.In.op.Amount, b.In.op.Amount) })
	}
	op := &g.reqs[0].In.op
	in = binary.LittleEndian.AppendUint16(in, uint16(g.key+1)) // Lua counts from 1
	in = binary.LittleEndian.AppendUint16(in, ls.of(op.Limit))
	further, runs := 0, 0
	for i := 0; i < len(g.reqs); runs++ {
		first := i
		n := g.reqs[first].In.op.Amount
		for i < len(g.reqs) && g.reqs[i].In.op.Amount == n {
			i++
		}
		in = double(in, n)
		in = binary.LittleEndian.AppendUint32(in, uint32(i-first))
		if runs == 0 {
			further = len(in)
			in = binary.LittleEndian.AppendUint16(in, 0)
		}
	}
	binary.LittleEndian.PutUint16(in[further:], uint16(runs-1))
	return in
}

// encodeRest appends the transactions of a request. A Read or a question has none: the script
// returns the record of every key.
func (b *batch) encodeRest(in []byte, q *request) []byte {
	lone := func(key string, code byte) {
		b.txns++
		in = binary.LittleEndian.AppendUint16(in, 1)
		in = b.encodeOp(in, &store.Op{Bucket: store.Bucket{Key: key}}, code)
	}
	switch {
	case q.reads != nil:
	case q.txns != nil:
		for _, txn := range q.txns {
			if unknownMode(txn) || txn.Asks() {
				continue
			}
			b.txns++
			in = binary.LittleEndian.AppendUint16(in, uint16(len(txn)))
			for i := range txn {
				in = b.encodeOp(in, &txn[i], byte(txn[i].Mode))
			}
		}
	case q.deletes != nil:
		for _, key := range q.deletes {
			lone(key, remove)
		}
	case q.prunes != nil:
		for _, key := range q.prunes {
			lone(key, prune)
		}
	case q.op.Mode != store.Ask:
		b.txns++
		in = binary.LittleEndian.AppendUint16(in, 1)
		in = b.encodeOp(in, &q.op, byte(q.op.Mode))
	}
	return in
}

func (b *batch) encodeOp(in []byte, op *store.Op, code byte) []byte {
	since := 0.0
	if !op.CeilingAt.IsZero() {
		code |= sinks
		since = float64(op.CeilingAt.UnixMicro())
	}
	// A duration of more than 2^53 microseconds need not be a double.
	long, short := float64(-1), 0.0
	if op.BlockFor != store.UntilEmpty {
		us := op.BlockFor.Microseconds()
		long, short = float64(us&^1), float64(us&1)
	}
	in = binary.LittleEndian.AppendUint16(in, uint16(b.number[op.Key]+1))
	in = append(in, code)
	in = binary.LittleEndian.AppendUint16(in, b.limits.of(op.Limit))
	for _, v := range [...]float64{op.Amount, op.Hold, op.Ceiling, since, long, short} {
		in = double(in, v)
	}
	return in
}

// unknownMode reports whether a transaction has a mode that decide.lua does not know.
func unknownMode(txn store.Txn) bool {
	return slices.ContainsFunc(txn, func(op store.Op) bool { return op.Mode > store.Unblock })
}
