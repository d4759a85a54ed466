package redisstore

import (
	"bytes"
	"strconv"
	"time"

	"github.com/brimgo/brim/internal/combine"
	"github.com/brimgo/brim/store"
)

// request is a transaction: an operation by itself, or one of several operations. Reads and
// removals are operations in modes of this package.
type request struct {
	one   [1]store.Op
	txn   store.Txn // unless it is nil, in the place of one
	since time.Time // the call has waited for its script since then
}

// answer is the answer to a request.
type answer struct {
	state  store.State  // of one operation, and of a read
	result store.Result // of a transaction
	found  bool         // whether the bucket exists that was read, or existed that was removed
	wrote  bool         // whether the script changed a record for the request
}

type fillRequest = combine.Request[request, answer]

// Modes beside those of package store.
const (
	modeRead store.Mode = iota + store.UpTo + 1
	modeDelete
	modePrune
)

// modes are the names of the modes in decide.lua.
var modes = [...]string{
	store.Clamp: "clamp", store.Always: "always", store.Ask: "ask", store.Block: "block", store.Unblock: "unblock",
	modeDelete: "delete", modePrune: "prune",
}

// ops returns the operations of the request.
func (q *request) ops() store.Txn {
	if q.txn != nil {
		return q.txn
	}
	return q.one[:]
}

// asks reports whether no answer to the request writes anything.
func (q *request) asks() bool { return q.ops()[0].Mode == modeRead || q.ops().Asks() }

// batch is the requests that one script decides. It is reused from flush to flush.
type batch struct {
	name   func(key string) string
	reqs   []*fillRequest
	keys   []string         // of Redis
	number map[string]int   // of each key of a bucket: its index in keys
	groups [][]*fillRequest // one transaction, or equal operations of several callers
	group  map[store.Op]int // of an operation: its index in groups
	input  []byte
	asks   bool // nothing is written, whatever the answer
}

func newBatch(name func(key string) string) *batch {
	return &batch{name: name, number: make(map[string]int), group: make(map[store.Op]int)}
}

// take moves requests into the batch, until it has as many operations as one script may have, and
// returns the others. Equal operations count as one.
func (b *batch) take(reqs []*fillRequest, size int) (others []*fillRequest) {
	b.reqs, b.keys, b.groups = b.reqs[:0], b.keys[:0], b.groups[:0]
	clear(b.number)
	clear(b.group)
	for n, r := range reqs {
		g, there := b.group[r.In.one[0]]
		if !there || r.In.txn != nil {
			if size -= len(r.In.ops()); size < 0 && n > 0 {
				return reqs[n:]
			}
			if g = len(b.groups); g < cap(b.groups) {
				b.groups = b.groups[:g+1] // with the slice of an earlier flush
				b.groups[g] = b.groups[g][:0]
			} else {
				b.groups = append(b.groups, nil)
			}
			if r.In.txn == nil {
				b.group[r.In.one[0]] = g
			}
			for i := range r.In.ops() {
				op := &r.In.ops()[i]
				if !op.CeilingAt.IsZero() { // beyond MaxTime, it need not be a double
					op.CeilingAt = time.UnixMicro(min(max(op.CeilingAt.UnixMicro(), -store.MaxTime), store.MaxTime))
				}
				if _, numbered := b.number[op.Key]; !numbered {
					b.number[op.Key] = len(b.keys)
					b.keys = append(b.keys, b.name(op.Key))
				}
			}
		}
		b.groups[g] = append(b.groups[g], r)
		b.reqs = append(b.reqs, r)
	}
	return nil
}

// encode writes the input of decide.lua, which describes it. A request that only asks needs no
// operation there: the script returns the text of every key.
func (b *batch) encode(clock *int64, maxSkew time.Duration) {
	in := strconv.AppendInt(append(b.input[:0], `{"skew":`...), maxSkew.Microseconds(), 10)
	if clock != nil {
		in = strconv.AppendInt(append(in, `,"clock":`...), *clock, 10)
	}
	in = append(in, `,"txns":[`...)
	last := store.Limit{Capacity: -1}
	txns := 0
	for _, group := range b.groups {
		ops := group[0].In.ops()
		if group[0].In.asks() {
			continue
		}
		if txns++; len(ops) > 1 {
			in = append(in, '[')
		}
		for i := range ops {
			in = append(in, '{')
			if key := b.number[ops[i].Key] + 1; key != txns || len(ops) > 1 { // Lua counts from 1
				in = number(in, "key", float64(key))
			}
			if ops[i].Limit != last {
				last = ops[i].Limit
				in = appendLimit(in, last)
			}
			in = appendOp(in, &ops[i])
			if len(group) > 1 {
				in = number(in, "times", float64(len(group)))
			}
			in = closed(in, "},")
		}
		if len(ops) > 1 {
			in = closed(in, "],")
		}
	}
	b.input, b.asks = closed(in, "]}"), txns == 0
}

// closed appends a bracket, in the place of the comma behind the last element.
func closed(in []byte, bracket string) []byte {
	return append(bytes.TrimSuffix(in, []byte{','}), bracket...)
}

// number appends a field, and the comma behind it.
func number(in []byte, name string, v float64) []byte {
	in = append(append(append(in, '"'), name...), '"', ':')
	return append(decimal(in, v), ',')
}

// decimal appends the shortest text of a number, by an exponent only where its digits would be
// many.
func decimal(in []byte, v float64) []byte {
	form := byte('f')
	if v != 0 && (v < 1e-6 && v > -1e-6 || v >= 1e21 || v <= -1e21) {
		form = 'e'
	}
	return strconv.AppendFloat(in, v, form, -1, 64)
}

// appendLimit appends the fields of a limit. The text is the one that records contain.
func appendLimit(in []byte, l store.Limit) []byte {
	if l == (store.Limit{}) {
		return append(in, `"limit":"",`...)
	}
	in = append(decimal(append(in, `"limit":"`...), l.Capacity), ' ')
	in = append(decimal(in, l.LeakRate), `",`...)
	return number(number(in, "capacity", l.Capacity), "rate", l.LeakRate)
}

// appendOp appends the fields of an operation that are not 0.
func appendOp(in []byte, op *store.Op) []byte {
	if mode := modes[op.Mode]; mode != "" {
		in = append(append(append(in, `"mode":"`...), mode...), `",`...)
	}
	block := float64(-1)
	if op.BlockFor != store.UntilEmpty {
		block = float64(op.BlockFor.Microseconds())
	}
	for _, f := range [...]struct {
		name string
		v    float64
	}{{"amount", op.Amount}, {"least", op.Least}, {"hold", op.Hold}, {"ceiling", op.Ceiling}, {"block", block}} {
		if f.v != 0 {
			in = number(in, f.name, f.v)
		}
	}
	if op.LeakRate < 0 {
		in = number(in, "begins", float64(op.Begins))
	}
	if !op.CeilingAt.IsZero() {
		in = number(in, "since", float64(op.CeilingAt.UnixMicro()))
	}
	return in
}
