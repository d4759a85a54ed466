package local

import (
	"hash/maphash"
	"math"
	"math/bits"
	"strings"
	"sync"
	"sync/atomic"
)

// table finds the set that a key belongs to. The low bits of the key's hash choose it.
type table[S any] struct {
	seed maphash.Seed
	sets []S // a power of two
}

// newTable returns a table whose sets have room for that many buckets at least, and for less than
// twice as many if they have room for more than one set does.
func newTable[S any](buckets float64) table[S] {
	const maxSets = 1 << 30 // hold more buckets than fit into the memory of any machine
	n := 1
	for n < maxSets && float64(n)*ways < buckets {
		n *= 2
	}
	return table[S]{maphash.MakeSeed(), make([]S, n)}
}

// at returns the set of key, and the key's hash.
func (t *table[S]) at(key string) (*S, uint64) {
	h := maphash.String(t.seed, key)
	return &t.sets[h&uint64(len(t.sets)-1)], h
}

// set is one set of a set-associative cache. The buckets of one set compete for its ways.
//
// A lookup takes no lock and writes nothing. It reads the first cache line of the set and the entry
// that a way points to.
type set[V any] struct {
	tags atomic.Uint64 // one byte of the hash for each way, so that a lookup skips other keys; 0: free
	ways [ways]atomic.Pointer[entry[V]]
	mu   sync.Mutex // held to change the set
}

const ways = 7

// entry is the value of a key. A lookup of a short key reads no memory but the entry.
type entry[V any] struct {
	hash    uint64
	key     shortKey
	v       V
	longKey string // the key, if it is too long for shortKey
}

// shortKey holds a key of at most maxShort bytes; the last byte holds its length. A last byte of
// longMark means that the key is in entry.longKey.
type shortKey [24]byte

const (
	maxShort = len(shortKey{}) - 1
	longMark = 0xff
)

func newEntry[V any](hash uint64, key string) *entry[V] {
	e := &entry[V]{hash: hash}
	if len(key) > maxShort {
		e.key[maxShort], e.longKey = longMark, strings.Clone(key) // key may be part of a large buffer
		return e
	}
	copy(e.key[:], key)
	e.key[maxShort] = byte(len(key))
	return e
}

func (e *entry[V]) hasKey(key string) bool {
	if len(key) > maxShort {
		return e.longKey == key
	}
	return int(e.key[maxShort]) == len(key) && string(e.key[:len(key)]) == key
}

// tag returns the highest byte of the hash, or 1 if that is 0: a tag is never 0.
func tag(hash uint64) uint64 { return max(1, hash>>56) }

// find returns the value of key, or nil.
func (s *set[V]) find(hash uint64, key string) *V {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	x := s.tags.Load() ^ tag(hash)*ones
	// A byte that equals the tag is zero in x, and its high bit is set in m. The high bit of the
	// byte above may be set by mistake, so the entry's key decides.
	for m := (x - ones) &^ x & highs; m != 0; m &= m - 1 {
		w := bits.TrailingZeros64(m) / 8
		if w >= ways {
			break
		}
		if e := s.ways[w].Load(); e != nil && e.hash == hash && e.hasKey(key) {
			return &e.v
		}
	}
	return nil
}

// put publishes e in way w. A nil e frees the way. The set is locked.
func (s *set[V]) put(w int, e *entry[V]) {
	var t uint64
	if e != nil {
		t = tag(e.hash)
	}
	s.ways[w].Store(e)
	s.tags.Store(s.tags.Load()&^(0xff<<(8*w)) | t<<(8*w))
}

// wayOf returns the way that holds v, or -1. The set is locked.
func (s *set[V]) wayOf(v *V) int {
	for w := range ways {
		if e := s.ways[w].Load(); e != nil && &e.v == v {
			return w
		}
	}
	return -1
}

// victim returns the way for a new value: a free way, or the way of the value that is the oldest by
// its time of birth. The set is locked.
func (s *set[V]) victim(born func(*V) int64) (victim int) {
	oldest := int64(math.MaxInt64)
	for w := range ways {
		e := s.ways[w].Load()
		if e == nil {
			return w
		}
		if at := born(&e.v); at < oldest {
			oldest, victim = at, w
		}
	}
	return victim
}
