package refusals

import (
	"math"
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/brimgo/brim/store"
)

// set is a small part of the table: the buckets whose hash falls to it compete for its ways. A lookup reads its first cache
// line and the entry that this points to, and writes nothing. The second line is for those who go to the store.
type set struct {
	tags atomic.Uint64 // a byte of the hash for each way, so that the other entries need not be looked at; 0: free
	ways [ways]atomic.Pointer[entry]

	mu  sync.Mutex    // held to change anything
	gen atomic.Uint64 // changes when something may have made room, or changed the rule, in any bucket of the set
	// The limit of the last call that went to the store: two limits for one key mean two rules, and what was learned by one
	// says nothing of the other.
	capacity, rate atomic.Uint64 // bits
	_              [32]byte
}

const ways = 7

// setsFor is a power of two: room for twice as many buckets, so that hardly any set has more than its share.
func setsFor(buckets int) int {
	n := 1
	for n*ways/2 < buckets && n < 1<<40 {
		n *= 2
	}
	return n
}

// tag is the byte for the hash, never 0. The lower bits choose the set.
func tag(hash uint64) uint64 { return max(1, hash>>56) }

// find returns the entry of key, or nil.
func (b *set) find(hash uint64, key string) *entry {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	x := b.tags.Load() ^ tag(hash)*ones
	// A byte that was equal is zero now, and becomes a high bit. Bytes above one may, too: the entry has the last word.
	for m := (x - ones) &^ x & highs; m != 0; m &= m - 1 {
		w := bits.TrailingZeros64(m) / 8
		if w >= ways {
			break
		}
		if e := b.ways[w].Load(); e != nil && e.hash == hash && e.is(key) {
			return e
		}
	}
	return nil
}

// put publishes e in way w, or frees the way if e is nil. The set is locked.
func (b *set) put(w int, e *entry) {
	if old := b.ways[w].Load(); old != nil {
		old.wake()
	}
	var t uint64
	if e != nil {
		t = tag(e.hash)
	}
	b.ways[w].Store(e)
	b.tags.Store(b.tags.Load()&^(0xff<<(8*w)) | t<<(8*w))
}

// way is where e is. The set is locked.
func (b *set) way(e *entry) int {
	for w := range ways {
		if b.ways[w].Load() == e {
			return w
		}
	}
	return -1
}

// victim is the way that a new entry takes: a free one, or that of the entry that will be of no use the soonest. The set is
// locked.
func (b *set) victim(remember int64) int {
	least, at := int64(math.MaxInt64), 0
	for w := range ways {
		e := b.ways[w].Load()
		if e == nil {
			return w
		}
		if useless := e.sent + min(e.wait, remember); useless < least {
			least, at = useless, w
		}
	}
	return at
}

// remove forgets the entry of key. The set is locked.
func (b *set) remove(hash uint64, key string) {
	if e := b.find(hash, key); e != nil {
		b.put(b.way(e), nil)
	}
}

// forget ends what is known of key, and what answers that are on their way would have taught.
func (b *set) forget(hash uint64, key string) {
	b.mu.Lock()
	b.remove(hash, key)
	b.gen.Add(1)
	b.mu.Unlock()
}

// clear forgets everything.
func (b *set) clear() {
	b.mu.Lock()
	if b.tags.Load() != 0 { // most sets are empty
		for w := range ways {
			b.put(w, nil)
		}
	}
	b.gen.Add(1)
	b.mu.Unlock()
}

// begin is called before a question is sent. It returns the generation by which its answer is judged.
func (b *set) begin(limit store.Limit) (gen uint64) {
	gen = b.gen.Load() // first: a change of the limit after this must show
	if !b.by(limit) {
		b.mu.Lock()
		b.capacity.Store(math.Float64bits(limit.Capacity))
		b.rate.Store(math.Float64bits(limit.LeakRate))
		gen = b.gen.Add(1)
		b.mu.Unlock()
	}
	return gen
}

// by reports whether the set's last question came with limit.
func (b *set) by(limit store.Limit) bool {
	return b.capacity.Load() == math.Float64bits(limit.Capacity) && b.rate.Load() == math.Float64bits(limit.LeakRate)
}

// learn keeps what an answer says, if it was asked in generation gen and nothing better is known. The set is locked.
func (b *set) learn(hash uint64, key string, e entry, refused bool, gen uint64, remember int64) {
	old := b.find(hash, key)
	if !b.by(e.rec.Limit) || old != nil && old.rec.Limit != e.rec.Limit {
		// The bucket was asked with another limit meanwhile: which of the answers came first, nobody can tell.
		b.remove(hash, key)
		b.gen.Add(1)
		return
	}
	if b.gen.Load() != gen || old != nil && !e.outdates(old) {
		return
	}
	if !refused && e.wait == 0 {
		// The same again would fit. What is known to be too large may still be.
		if old == nil || !e.remember(old.n) {
			b.remove(hash, key)
			return
		}
	}
	var w int
	if old != nil {
		w = b.way(old)
		if e.overlaps(old) {
			e.at = max(e.at, old.least(e.got))
		}
		e.name, e.long, e.asking, e.units = old.name, old.long, old.asking, old.units
	} else {
		w = b.victim(remember)
		e.call(key)
	}
	e.hash = hash
	b.put(w, &e)
}

// expect makes n the amount that e answers fast, once: what a flood asks for is not always what filled the bucket.
func (b *set) expect(e *entry, n float64) {
	if !b.mu.TryLock() {
		return
	}
	defer b.mu.Unlock()
	if w := b.way(e); w >= 0 {
		sure := *e
		sure.changed = nil // put wakes those who wait at e
		if sure.remember(n) {
			sure.guess = false
			b.put(w, &sure)
		}
	}
}
