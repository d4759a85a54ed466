package lin

import (
	"fmt"
	"hash/maphash"
	"math"
	"slices"
	"strings"

	"github.com/brimgo/brim/lab/internal/history"
	"github.com/brimgo/brim/store"
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
			if m.Mode != store.Always || m.Amount >= 0 || m.Hold != 0 || a.Results[i].Levels[j] > 0 {
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
		if r.Estimate {
			b.WriteString("from memory, ")
		}
		fmt.Fprintf(&b, "level %v held %v at %v", r.Levels, r.Held, seconds(r.At))
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

// content is the state of a store: the units of each bucket at the time of its last write, in
// microseconds. The time of a bucket that does not exist is 0.
type content struct {
	units [keys]history.Units
	time  [keys]int64
}

var hashSeed = maphash.MakeSeed()

func (c content) hash() uint64           { return maphash.Comparable(hashSeed, c) }
func (c content) equal(other state) bool { return c == other }

// storeModel is the model of a store that answers when its decision lasts. It is written from the
// documentation of package store.
//
// A primary of Redis that is cut off may have fills that are lost, and may lack those of its
// successor. A call that writes waits for a replica, and so learns that. A call that writes nothing
// does not: while a primary is cut off, its answer tells nothing.
//
// The State's At fixes the time of a decision. At is never before the bucket's last write. If the
// history has the store's clock, At is one of the readings during the call, or the time of the last
// write if the reading is behind that. A last write that is more than MaxSkew ahead of the clock is
// not believed: then At is the reading, and nothing leaks.
type storeModel struct {
	limits [keys]store.Limit
	// rounding is the difference in units that is allowed between the store and the model. It is 0
	// if all amounts are whole numbers.
	rounding float64
}

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
		return m.unknown(b, q, c.readings)
	}
	a, _ := c.out.(storeResponse)
	if c.split && q.idle(a) {
		answered := *c
		answered.split = false
		return distinct(append([]content{b}, m.next(b, &answered)...))
	}
	switch q.Kind {
	case history.Delete:
		return []content{deleted(b, q.Keys)}
	case history.Read:
		return m.read(b, q.Keys, a.Results[0], c.readings)
	case history.Fill, history.Apply, update, with:
		after := []content{b}
		for i, txn := range q.Txns {
			var all []content
			for _, b := range after {
				all = append(all, m.transact(b, txn, a.Results[i], c.readings)...)
			}
			after = all
		}
		return after
	}
	return []content{b}
}

func deleted(b content, gone []int) content {
	for _, k := range gone {
		b.units[k], b.time[k] = history.Units{}, 0
	}
	return b
}

// unknown returns the contents after a call that may have been applied, at any of the readings. A
// store with its own clock gets such calls only if its buckets leak so slowly that the time does
// not matter.
func (m *storeModel) unknown(b content, q storeRequest, readings []int64) []content {
	if q.Kind == history.Delete {
		return distinct([]content{b, deleted(b, q.Keys)})
	}
	applied := []content{b}
	for _, txn := range q.Txns {
		var all []content
		for _, b := range applied {
			if readings == nil {
				next := b
				history.Transact(next.units[:], m.limit(0), txn)
				all = append(all, next)
			}
			for _, at := range readings {
				leaked := m.leaked(b, txn, func(i int) int64 { return believed(b.time[txn[i].Key], at) })
				next := leaked
				res := history.Transact(next.units[:], m.limit(0), txn)
				all = append(all, written(b, leaked, next, txn, res)...)
			}
		}
		applied = distinct(all)
	}
	return distinct(append([]content{b}, applied...))
}

func distinct(all []content) (each []content) {
	for _, c := range all {
		if !slices.Contains(each, c) {
			each = append(each, c)
		}
	}
	return each
}

// believed returns the time of a decision about a bucket that was last written at a time, when the
// clock shows now.
func believed(last, now int64) int64 {
	if last-now > store.DefaultMaxSkew.Microseconds() {
		return now
	}
	return max(last, now)
}

func (m *storeModel) limit(more float64) func(k int) store.Limit {
	return func(k int) store.Limit {
		return store.Limit{Capacity: m.limits[k].Capacity + more, LeakRate: m.limits[k].LeakRate}
	}
}

// leaked returns the content with the buckets of a transaction brought to times.
func (m *storeModel) leaked(b content, txn []history.Move, at func(i int) int64) content {
	for i, move := range txn {
		k, now := move.Key, at(i)
		if b.time[k] != 0 && now > b.time[k] {
			b.units[k].Level = max(0, b.units[k].Level-m.limits[k].LeakRate*(float64(now-b.time[k])/1e6))
		}
		b.time[k] = now
	}
	return b
}

// written returns the contents that are possible after a decision. leaked is the content before it,
// at the time of the decision. A bucket that was not written keeps its old time, unless that is not
// believed: a decision may correct it even if it changes nothing else.
func written(before, leaked, after content, txn []history.Move, res history.Result) []content {
	if txn[0].Mode == store.Ask {
		return []content{before}
	}
	if !res.Accepted && (len(txn) > 1 || txn[0].Mode == store.IfFits || res.NotHeld) {
		after = before
	}
	moved := after
	for _, move := range txn {
		k := move.Key
		drains := !slices.ContainsFunc(txn, func(m history.Move) bool {
			return m.Key == k && (m.Amount >= 0 || m.Hold != 0)
		})
		if drains && leaked.units[k].Level == 0 { // a drain of an empty bucket may change nothing
			after.units[k], after.time[k] = before.units[k], before.time[k]
		}
	}
	corrected := after
	for _, move := range txn {
		corrected.time[move.Key] = min(corrected.time[move.Key], leaked.time[move.Key])
	}
	return distinct([]content{after, corrected, moved})
}

// transact checks the answer to a transaction.
func (m *storeModel) transact(b content, txn []history.Move, res history.Result, readings []int64) []content {
	if res.NotHeld {
		next := b
		if history.Transact(next.units[:], m.limit(0), txn).NotHeld {
			return []content{b}
		}
		return nil
	}
	for i, move := range txn {
		if !m.possible(b, move.Key, res.At[i], readings) {
			return nil
		}
	}
	leaked := m.leaked(b, txn, func(i int) int64 { return res.At[i] })
	for _, more := range m.margins() {
		next := leaked
		if want := history.Transact(next.units[:], m.limit(more), txn); m.agree(res, want) {
			return written(b, leaked, next, txn, want)
		}
	}
	return nil
}

// margins returns the changes of a capacity that rounding can excuse.
func (m *storeModel) margins() []float64 {
	if m.rounding == 0 {
		return []float64{0}
	}
	return []float64{0, -m.rounding, m.rounding}
}

// possible reports whether the store may decide about a bucket at a time.
func (m *storeModel) possible(b content, k int, at int64, readings []int64) bool {
	if readings == nil {
		return at >= b.time[k]
	}
	return slices.ContainsFunc(readings, func(r int64) bool { return at == believed(b.time[k], r) })
}

func (m *storeModel) agree(got, want history.Result) bool {
	return got.NotHeld == want.NotHeld && got.Accepted == want.Accepted &&
		slices.EqualFunc(got.Levels, want.Levels, m.near) && slices.EqualFunc(got.Held, want.Held, m.near)
}

func (m *storeModel) near(x, y float64) bool { return math.Abs(x-y) <= m.rounding }

func (m *storeModel) read(b content, ks []int, res history.Result, readings []int64) []content {
	for i, k := range ks {
		if !m.possible(b, k, res.At[i], readings) {
			return nil
		}
		u := m.leaked(b, []history.Move{{Key: k}}, func(int) int64 { return res.At[i] }).units[k]
		if !m.near(u.Level, res.Levels[i]) || !m.near(u.Held, res.Held[i]) {
			return nil
		}
	}
	return []content{b}
}
