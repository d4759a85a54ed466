package memory

import (
	"hash/maphash"
	"sync"
	"time"

	"github.com/brimgo/brim/store"
)

// shardCount is far above the number of cores, so that callers rarely wait for the same shard.
// It is a power of two.
const shardCount = 256

// shard is a part of the buckets with its own lock. It occupies two cache lines and shares
// neither with another shard. A decision reads only the first.
type shard struct {
	mu sync.Mutex
	table
	pruneAt int // number of buckets at which the next new bucket triggers a prune of the shard
}

// shard returns the shard of key, and the hash by which the shard's table finds key.
func (s *Store) shard(key string) (*shard, uint32) {
	h := maphash.String(s.seed, key)
	return &s.shards[h%shardCount], uint32(h >> 32)
}

// hash returns the same hash of a key in bytes.
func (s *Store) hash(key []byte) uint32 { return uint32(maphash.Bytes(s.seed, key) >> 32) }

// tidy prunes the shard before a new bucket is inserted, if the number of buckets has doubled
// since the last prune. So the work for each inserted bucket is the removal of about one
// bucket. The caller has locked the shard. Pointers to slots become invalid.
func (s *Store) tidy(sh *shard, now int64) {
	if sh.live >= max(firstPrune, sh.pruneAt) {
		s.pruneLocked(sh, now, s.maxSkew)
	}
}

// insert stores the record of a new key. The caller has locked the shard.
func (s *Store) insert(sh *shard, hash uint32, key string, r *store.Record) error {
	if !s.counted(1) {
		return errFull
	}
	sh.insert(hash, key, r)
	return nil
}

// firstPrune is the smallest number of buckets at which a shard is pruned.
const firstPrune = 64

// counted adds n to the number of buckets if MaxBuckets is set. If the sum would exceed
// MaxBuckets, counted adds nothing and returns false.
func (s *Store) counted(n int64) bool {
	if s.maxBuckets == 0 {
		return true
	}
	if s.count.Add(n) > s.maxBuckets && n > 0 {
		s.count.Add(-n)
		return false
	}
	return true
}

// pause is the shortest time between two sweeps, in microseconds.
const pause = int64(time.Second / time.Microsecond)

// sweep prunes all shards of a bounded store, and reports whether it removed a bucket. It does
// nothing within a second of the last sweep.
func (s *Store) sweep(now int64) bool {
	after := s.sweepAfter.Load()
	// If sweepAfter is more than a pause ahead, the clock has stepped back since, and the sweep
	// goes on.
	if (now < after && after-now <= pause) || !s.sweepAfter.CompareAndSwap(after, now+pause) {
		return false
	}
	var removed int64
	for i := range s.shards {
		removed += s.pruneShard(&s.shards[i], s.sweepSkew)
	}
	return removed > 0
}

func (s *Store) pruneShard(sh *shard, skew time.Duration) int64 {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return s.pruneLocked(sh, s.clock.Now(), skew)
}

func (s *Store) pruneLocked(sh *shard, now int64, skew time.Duration) int64 {
	removed := int64(sh.removeIf(func(r *store.Record) bool { return r.Expired(now, skew) }))
	sh.pruneAt = 2 * sh.live
	s.counted(-removed)
	return removed
}
