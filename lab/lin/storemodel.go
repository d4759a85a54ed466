package lin

import (
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/brimgo/brim/lab/internal/history"
	"github.com/brimgo/brim/store"
	"github.com/brimgo/brim/store/storetest"
)

// storeRequest is a call on a store.
type storeRequest struct{ history.Op }

// The kinds of calls that fill one bucket after another in a transaction.
const (
	update history.Kind = "update" // of the store
	with   history.Kind = "with"   // of the caller
)

func (q storeRequest) writes(out response) bool {
	if len(q.Txns) > 0 && q.Txns[0][0].Mode == store.Ask {
		return false
	}
	a, ok := out.(storeResponse)
	if !ok || len(a.Results) == 0 {
		return q.Kind != history.Read
	}
	for i, txn := range q.Txns {
		// A lone clamped fill that spills is not accepted, and writes.
		if a.Results[i].Accepted || len(txn) == 1 && txn[0].Mode == store.Clamp {
			return true
		}
	}
	return false
}

// idle reports whether the call may have written nothing: a question, a refusal, or drains that
// perhaps found nothing.
func (q storeRequest) idle(a storeResponse) bool {
	if !q.writes(a) {
		return true
	}
	for i, txn := range q.Txns {
		for j, m := range txn {
			if m.Mode != store.Always || m.Amount >= 0 || m.Hold != 0 || a.Results[i].States[j].Level > 0 {
				return false
			}
		}
	}
	return len(q.Txns) > 0
}

func (q storeRequest) ticks() int { return q.Seconds }

func (q storeRequest) touches() (keys []int) {
	for _, txn := range q.Txns {
		for _, m := range txn {
			keys = append(keys, m.Key)
		}
	}
	return append(keys, q.Keys...)
}

// storeResponse is the answer of a store.
type storeResponse struct{ history.Answer }

func (a storeResponse) failure() history.Failure { return a.Err }

func (a storeResponse) odd() string {
	if a.Odd {
		return a.Text
	}
	return ""
}

func (a storeResponse) String() string {
	if a.Err != "" {
		return string(a.Err)
	}
	var b strings.Builder
	for _, r := range a.Results {
		switch {
		case r.NotHeld:
			b.WriteString("not held")
			continue
		case r.Accepted:
			b.WriteString("accepted, ")
		}
		for _, st := range r.States {
			if st.Estimate {
				b.WriteString("from memory, ")
			}
			fmt.Fprintf(&b, "%v at %v ", st, seconds([]int64{st.At.UnixMicro()}))
		}
	}
	return b.String()
}

// seconds returns times in seconds since the beginning of the histories' clocks.
func seconds(us []int64) []float64 {
	s := make([]float64, len(us))
	for i, at := range us {
		s[i] = float64(at-history.At(0).UnixMicro()) / 1e6
	}
	return s
}

// keys is the number of buckets of a history.
const keys = 4

// content is a state of a store, by the keys of the buckets.
type content map[string]storetest.Bucket

var hashSeed = maphash.MakeSeed()

func (c content) hash() (h uint64) {
	for key, b := range c {
		h ^= maphash.Comparable(hashSeed, b) + maphash.String(hashSeed, key)
	}
	return h
}

func (c content) equal(other state) bool {
	o, ok := other.(content)
	return ok && maps.Equal(c, o)
}

// storeModel is the model of a store that answers when its decision lasts: that of package
// storetest, at some reading of the clock during the call.
//
// A primary of Redis that is cut off may have fills that are lost, and may lack those of its
// successor. A call that writes waits for a replica, and so learns that. A call that writes nothing
// does not: while a primary is cut off, its answer tells nothing.
//
// A history without the store's clock takes the reading from the State's At.
type storeModel struct {
	bucket history.Bucket
	// rounding is the difference in units that is allowed between the store and the model. It is 0
	// if no number needs rounding.
	rounding float64
	began    time.Time // no bucket is older
}

func (m *storeModel) String() string { return "storetest.Model" }

func (m *storeModel) start() state { return content{} }

func (m *storeModel) step(before state, c *call) []state {
	b, _ := before.(content)
	after := m.next(b, c)
	states := make([]state, len(after))
	for i := range after {
		states[i] = after[i]
	}
	return states
}

// next returns the contents that are possible after a call.
func (m *storeModel) next(b content, c *call) []content {
	q, _ := c.in.(storeRequest)
	if c.out == nil {
		return m.unknown(b, q.Op, c.readings)
	}
	a, _ := c.out.(storeResponse)
	if c.split && q.idle(a) {
		answered := *c
		answered.split = false
		return distinct(append([]content{b}, m.next(b, &answered)...))
	}
	after := []content{b}
	for i, op := range parts(q.Op) {
		var all []content
		for _, b := range after {
			answer := a.Answer
			if len(answer.Results) > 0 {
				answer.Results = answer.Results[i : i+1]
			}
			for _, clock := range m.clocks(b, op, &answer, c.readings) {
				if next, err := op.On(m.with(b), m.bucket, clock, &answer); err == nil {
					all = append(all, next.Buckets)
				}
			}
		}
		after = distinct(all)
	}
	return after
}

func (m *storeModel) with(b content) storetest.Model {
	return storetest.Model{Buckets: b, Rounds: m.rounding > 0, Slack: m.rounding}
}

// parts splits an operation into its decisions.
func parts(op history.Op) (all []history.Op) {
	for i := range op.Txns {
		part := op
		part.Txns = op.Txns[i : i+1]
		all = append(all, part)
	}
	if all == nil {
		all = []history.Op{op}
	}
	return all
}

// clocks returns the readings of the clock at which a call may have been decided.
func (m *storeModel) clocks(b content, op history.Op, a *history.Answer, readings []int64) (all []time.Time) {
	for _, r := range readings {
		all = append(all, time.UnixMicro(r))
	}
	if readings != nil {
		return all
	}
	if len(a.Results) == 0 || len(a.Results[0].States) == 0 {
		return []time.Time{m.latest(b, op)}
	}
	first := a.Results[0].States[0].At
	for _, st := range a.Results[0].States {
		if st.At.Before(first) {
			first = st.At
		}
	}
	return []time.Time{first}
}

// latest returns the time at which the buckets of a call were last written.
func (m *storeModel) latest(b content, op history.Op) time.Time {
	at, model := m.began, m.with(b)
	for _, k := range (storeRequest{op}).touches() {
		if st, _ := model.Read(m.bucket(k), m.began, nil); st.At.After(at) {
			at = st.At
		}
	}
	return at
}

// unknown returns the contents after a call that may have been applied, at any of the readings. A
// store with its own clock gets such calls only if its buckets leak so slowly that the time does
// not matter.
func (m *storeModel) unknown(b content, op history.Op, readings []int64) []content {
	after := []content{b}
	for _, clock := range m.clocks(b, op, &history.Answer{}, readings) {
		next, _ := op.On(m.with(b), m.bucket, clock, nil)
		after = append(after, next.Buckets)
	}
	return distinct(after)
}

func distinct(all []content) (each []content) {
	for _, c := range all {
		if !slices.ContainsFunc(each, func(o content) bool { return c.equal(o) }) {
			each = append(each, c)
		}
	}
	return each
}
