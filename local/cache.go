package local

import (
	"math"
	"sync/atomic"

	"github.com/brimgo/brim/store"
)

// cacheSet is a set of snapshots. Only callers that go to the store use its second cache line.
type cacheSet struct {
	set[snapshot]
	// generation changes with each event that may have made room in a bucket of the set, or that
	// came with another limit.
	generation atomic.Uint64
	// The limit of the set's last call to the store, as float64 bits. Two limits for one key are
	// two rules: an answer under one limit tells nothing about the other.
	capacity, leakRate atomic.Uint64
	_                  [32]byte
}

// replace publishes e in way w, or frees the way, and wakes the callers that wait at the snapshot
// there. The set is locked.
func (cs *cacheSet) replace(w int, e *entry[snapshot]) {
	if old := cs.ways[w].Load(); old != nil {
		old.v.notify()
	}
	cs.put(w, e)
}

// remove drops the snapshot of key. The set is locked.
func (cs *cacheSet) remove(hash uint64, key string) {
	if e := cs.find(hash, key); e != nil {
		cs.replace(cs.wayOf(e), nil)
	}
}

// forget drops the snapshot of key. The set then ignores answers that are still on their way.
func (cs *cacheSet) forget(hash uint64, key string) {
	cs.mu.Lock()
	cs.remove(hash, key)
	cs.generation.Add(1)
	cs.mu.Unlock()
}

// clear drops all snapshots. The set then ignores answers that are still on their way.
func (cs *cacheSet) clear() {
	cs.mu.Lock()
	if cs.tags.Load() != 0 { // most sets are empty
		for w := range ways {
			cs.replace(w, nil)
		}
	}
	cs.generation.Add(1)
	cs.mu.Unlock()
}

// begin records that a question with limit is about to be sent. It returns the generation that
// learn compares when the answer has come.
func (cs *cacheSet) begin(limit store.Limit) (generation uint64) {
	generation = cs.generation.Load() // read before the limit, so that learn notices a later change of the limit
	if !cs.lastLimitIs(limit) {
		cs.mu.Lock()
		cs.capacity.Store(math.Float64bits(limit.Capacity))
		cs.leakRate.Store(math.Float64bits(limit.LeakRate))
		generation = cs.generation.Add(1)
		cs.mu.Unlock()
	}
	return generation
}

// lastLimitIs reports whether the set's last question came with limit.
func (cs *cacheSet) lastLimitIs(limit store.Limit) bool {
	return cs.capacity.Load() == math.Float64bits(limit.Capacity) &&
		cs.leakRate.Load() == math.Float64bits(limit.LeakRate)
}

// learn publishes the snapshot e of an answer, unless the generation has changed since
// the question or the set holds a better snapshot. The set is locked.
func (cs *cacheSet) learn(hash uint64, key string, e snapshot, refused bool, generation uint64) {
	old := cs.find(hash, key)
	other := old != nil && old.limit() != e.limit()
	if !cs.lastLimitIs(e.limit()) || other && !old.asked && old.rec.LeakRate == old.rate {
		// A question with another limit was in flight at the same time. Nobody can tell which
		// question the store answered first, so the set keeps neither answer.
		cs.remove(hash, key)
		cs.generation.Add(1)
		return
	}
	if cs.generation.Load() != generation || old != nil && !other && !e.supersedes(old) {
		return
	}
	// If the same amount would fit again, the amount that the old snapshot refuses may still not
	// fit.
	if e.wait == 0 && !refused && (old == nil || other || !e.keepFor(old.amount)) {
		cs.remove(hash, key)
		return
	}
	cs.publish(hash, key, e, old)
}

// note publishes the snapshot e of an answer to an op that wrote no limit, unless the generation
// has changed since the question or the set holds a better snapshot or one of another limit. A
// question's snapshot takes the place of another kind only if that is not believed any more. The
// set is locked.
func (cs *cacheSet) note(hash uint64, key string, e snapshot, generation uint64, remember int64) {
	old := cs.find(hash, key)
	if cs.generation.Load() != generation || e.limit() == (store.Limit{}) ||
		old != nil && (old.limit() != e.limit() || !e.supersedes(old)) ||
		old != nil && e.asked && !old.asked && e.sent-old.sent < remember {
		return
	}
	cs.publish(hash, key, e, old)
}

// publish puts the snapshot e in the place of old, or in the place of another bucket if old is nil.
// The set is locked.
func (cs *cacheSet) publish(hash uint64, key string, e snapshot, old *snapshot) {
	w := cs.victim(func(e *snapshot) int64 { return e.sent })
	if old != nil {
		w = cs.wayOf(old)
		e.calls, e.units = old.calls, old.units
	}
	kept := newEntry[snapshot](hash, key)
	kept.v = e
	cs.replace(w, kept)
}

// endQuestion ends a pending question. The set is locked.
func (cs *cacheSet) endQuestion(hash uint64, op *store.Op) {
	e := cs.find(hash, op.Key)
	if e == nil {
		return
	}
	// If the snapshot is younger than the question, it never counted the question.
	e.calls = max(0, e.calls-1)
	e.units = max(0, e.units-op.Amount-op.Hold)
	if e.calls == 0 {
		e.units = 0 // removes a remainder that rounding left
	}
	e.notify()
}
