package ui

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/brimgo/brim/observe"
	"github.com/brimgo/brim/store"
)

// Window is the time that a [Recorder] looks back.
const Window = slots * time.Second

const (
	slots = 600 // of a second each
	ways  = 16  // counters that share a lock; a key has its place in one such set

	defaultKeys = 1024
	maxKeys     = 1 << 20
)

// RecorderOptions adjust a [Recorder]. The zero value selects the defaults.
type RecorderOptions struct {
	// Keys is the number of buckets whose calls are kept, rounded up to a multiple of 16; 0 means
	// 1,024, and the most is 1,048,576. Each takes 22 KiB of memory from its first call on.
	Keys int
	// Clock replaces this process's clock, for tests.
	Clock func() time.Time
}

// Recorder counts all decisions and failed calls of the last [Window], and keeps the refusals and
// the levels of the busiest buckets. It costs a call about as much as three mutexes, allocates
// nothing, and never asks the store. It is safe for concurrent use.
//
// A call that Options.Shadow of the Limiter let pass counts as refused, and so does a Fillup that
// spilled units.
//
// The Recorder knows the calls of its own process only. Its times are on the store's clock. It
// keeps a fixed number of buckets, in groups of 16. The key of a bucket decides its group. In a
// full group a new bucket takes the place of the bucket that was called least. A bucket that gets
// more than one in 16 of the calls of its group is sure to be kept; a group gets about 16/Keys of
// all calls.
type Recorder struct {
	seed   maphash.Seed
	clock  func() time.Time
	ahead  atomic.Int64 // nanoseconds that the store's clock is ahead of this process's
	sets   []set
	calls  calls
	spends spendCalls

	mu     sync.Mutex
	blocks map[string]block // of all buckets, also of those that are not kept
}

// set is a summary of the stream of calls whose keys share a place, with one counter per way. A new
// key replaces the key with the smallest count, and inherits this count: so a count is never too
// small, and a key that has more calls than the smallest count is in the set.
type set struct {
	mu     sync.Mutex
	used   int
	latest int64 // second of the latest decision
	halved int64 // second of the store's clock in which the counts were last halved
	hashes [ways]uint32
	counts [ways]uint32
	keys   [ways]string
	born   [ways]int64        // second of the first call since the key is kept
	rings  *[slots][ways]slot // the ways of a second stand together, for the processor's caches
	totals [slots]total       // of all keys of the set, also of those that are not kept
}

// block is the end of a block, or zero, as an answer told it.
type block struct{ until, at time.Time }

// total is a second of all buckets of a set.
type total struct{ second, accepted, refused uint32 }

// slot is a second of a bucket. Its times are microseconds within the second.
type slot struct {
	second            uint32 // since 1970; a slot of another second is empty
	first, end        uint32 // the first and the last call
	accepted, refused uint32
	low, high         float32 // the extremes of the level
	level             float32 // after the last call
	rate              float32 // the leak rate of the limit last written, or of a quota the negative seconds from the slot's on until it empties
}

// NewRecorder returns a Recorder; o may be nil.
func NewRecorder(o *RecorderOptions) (*Recorder, error) {
	if o == nil {
		o = &RecorderOptions{}
	}
	if o.Keys < 0 || o.Keys > maxKeys {
		return nil, fmt.Errorf("ui: RecorderOptions.Keys is %d; it must be from 1 to %d, or 0 for %d", o.Keys, maxKeys, defaultKeys)
	}
	n := o.Keys
	if n == 0 {
		n = defaultKeys
	}
	r := &Recorder{seed: maphash.MakeSeed(), clock: o.Clock, sets: make([]set, (n+ways-1)/ways), blocks: make(map[string]block)}
	if r.clock == nil {
		r.clock = time.Now
	}
	return r, nil
}

// Wrap returns a store that records the calls to s and changes no answer. To report the calls to
// other hooks as well, wrap the returned store again by [observe.New]. It fails if s is nil.
func (r *Recorder) Wrap(s store.Store) (store.Store, error) {
	hooks := observe.Hooks{
		Start: r.calls.started, Decision: r.decided, End: r.ended,
		Block: func(_ context.Context, b observe.Block) { r.blocked(b.Key, b.State.BlockedUntil, b.State.At) },
	}
	w, err := observe.New(s, hooks, &observe.Options{Key: func(key string) string { return key }, Clock: r.clock})
	if err != nil {
		return nil, errors.Join(errors.New("ui: nothing to record"), err)
	}
	return w, nil
}

// decided is the hook of decisions.
func (r *Recorder) decided(_ context.Context, d observe.Decision) {
	s, hash := r.set(d.Key)
	at := d.State.At
	second := at.Unix()
	s.mu.Lock()
	way := s.keep(hash, d.Key, second)
	if s.counts[way] < math.MaxUint32 {
		s.counts[way]++
	}
	accepted := s.rings[uint64(second)%slots][way].add(&d, uint32(second), uint32(at.Nanosecond()/1000))
	s.totals[uint64(second)%slots].add(uint32(second), accepted)
	first := second > s.latest
	if first {
		s.latest = second
	}
	s.mu.Unlock()
	if first {
		r.tell(at)
	}
	if !d.State.BlockedUntil.IsZero() {
		r.blocked(d.Key, d.State.BlockedUntil, at)
	}
}

// tell takes the time of the store's clock from an answer.
func (r *Recorder) tell(at time.Time) { r.ahead.Store(int64(at.Sub(r.clock()))) }

// maxBlocks is the number of blocks that a listing tells the Recorder, and half of those it keeps.
const maxBlocks = 1000

// blocked notes the block of a bucket, or its end.
func (r *Recorder) blocked(key string, until, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.blocks[key]; !known && len(r.blocks) >= 2*maxBlocks {
		maps.DeleteFunc(r.blocks, func(_ string, b block) bool { return !b.until.After(at) })
		if len(r.blocks) >= 2*maxBlocks {
			return
		}
	}
	r.blocks[key] = block{until, at}
}

// listed takes the blocks of a listing that began at a time of the store's clock. News since then
// are kept, also the end of a block.
func (r *Recorder) listed(blocks map[string]block, began time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.blocks, func(_ string, b block) bool { return b.at.Before(began) })
	maps.Copy(blocks, r.blocks)
	r.blocks = blocks
}

// now returns the time of the store's clock.
func (r *Recorder) now() time.Time { return r.clock().Add(time.Duration(r.ahead.Load())).UTC() }

// set returns the set of a key, and the hash of the key.
func (r *Recorder) set(key string) (*set, uint32) {
	hash := maphash.String(r.seed, key)
	return &r.sets[hash>>32*uint64(len(r.sets))>>32], uint32(hash)
}

// keep returns the way of a key, which replaces another key if the set does not keep it.
func (s *set) keep(hash uint32, key string, second int64) int {
	if way := s.find(hash, key); way >= 0 {
		return way
	}
	return s.replace(hash, key, second)
}

// find returns the way of a key, or -1.
func (s *set) find(hash uint32, key string) int {
	for way := range s.used {
		if s.hashes[way] == hash && s.keys[way] == key {
			return way
		}
	}
	return -1
}

// replace puts a key into a free way, or into that with the smallest count, and returns the way.
// Once in half a window it halves all counts, so that a key that was busy once makes room.
func (s *set) replace(hash uint32, key string, second int64) int {
	if s.rings == nil {
		s.rings = new([slots][ways]slot)
	}
	if second-s.halved >= slots/2 {
		s.halved = second
		for way := range s.used {
			s.counts[way] /= 2
		}
	}
	way := s.used
	if way < ways {
		s.used++
	} else {
		way = 0
		for i, n := range s.counts {
			if n < s.counts[way] {
				way = i
			}
		}
	}
	s.hashes[way], s.keys[way], s.born[way] = hash, key, second
	s.rings[uint64(second)%slots][way] = slot{} // older slots of the former key are before born
	return way
}

// add counts a decision.
func (t *total) add(second uint32, accepted bool) {
	if t.second != second {
		*t = total{second: second}
	}
	if accepted {
		t.accepted++
	} else {
		t.refused++
	}
}

// rateOf returns the rate of a slot.
func rateOf(st *store.State, second uint32) float32 {
	if st.Empties.IsZero() {
		return float32(st.LeakRate)
	}
	return -float32(st.Empties.Sub(time.Unix(int64(second), 0)).Seconds())
}

// add counts a decision at a time, and reports whether it went in wholly.
func (t *slot) add(d *observe.Decision, second, us uint32) bool {
	level := float32(d.State.Level)
	if t.second != second || t.accepted+t.refused == 0 {
		*t = slot{second: second, first: us, low: level, high: level, rate: rateOf(&d.State, second)}
	}
	// The level right before an accepted amount is an extreme, too. The level after a call that
	// was refused, or lost units over the rim, is one by itself. The built-in min and max look for
	// NaN, which takes as long as all else here.
	in := d.Accepted && d.State.Spilled == 0
	if in {
		before := level - float32(d.Amount)
		if before < 0 {
			before = 0
		}
		if before < t.low {
			t.low = before
		}
		if before > t.high {
			t.high = before
		}
		t.accepted++
	} else {
		t.refused++
	}
	if level < t.low {
		t.low = level
	}
	if level > t.high {
		t.high = level
	}
	// Of two decisions, the later one may reach the Recorder first.
	if us < t.first {
		t.first = us
	}
	if us >= t.end {
		t.end, t.level = us, level
		if in {
			t.rate = rateOf(&d.State, second)
		}
	}
	return in
}
