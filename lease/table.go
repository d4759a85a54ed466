package lease

import (
	"hash/maphash"
	"maps"
	"math"
	"sync"
	"sync/atomic"

	"github.com/brimgo/brim/store"
)

const (
	shards  = 64
	recents = 1 << 12
)

// table finds the pools. A lookup takes no lock: a shard's map is never changed, but replaced by one that differs.
type table struct {
	seed   maphash.Seed
	most   int // pools in a shard
	shards [shards]struct {
		pools atomic.Pointer[map[string]*pool]
		mu    sync.Mutex // held to replace it
		// full is a reading of the monotonic clock. Before it, no pool of the shard gives its place to another.
		full atomic.Int64
		_    [40]byte
	}
	// recent remembers of buckets without a pool when they were last asked, roughly: a bucket that is asked once in a while
	// needs no pool.
	recent [recents]atomic.Uint64
}

func (t *table) hash(key string) uint64 { return maphash.String(t.seed, key) }

func (t *table) find(h uint64, key string) *pool {
	if pools := t.shards[h%shards].pools.Load(); pools != nil {
		return (*pools)[key]
	}
	return nil
}

// busy reports whether the bucket was asked within the last nanoseconds, and notes that it was now.
func (t *table) busy(h uint64, now, within int64) bool {
	const unit = 1 << 20 // about a millisecond
	slot := &t.recent[h>>20%recents]
	mark := h&0xffffff<<40 | uint64(now/unit)&(1<<40-1)
	before := slot.Load()
	if before != mark {
		slot.Store(mark)
	}
	if before>>40 != mark>>40 {
		return false
	}
	passed := int64(mark&(1<<40-1)) - int64(before&(1<<40-1))
	return before != 0 && passed >= 0 && passed <= within/unit
}

// insert adds a pool for b, unless there is one already. In a full shard, a pool keeps its place for stay nanoseconds: if
// every newcomer pushed one out, no pool would live long enough to see its bucket's demand, and no bucket would get a slice.
// After that time, the pools without a slice go, or else any one. A dropped pool loses its slice and nothing else.
func (t *table) insert(h uint64, b store.Bucket, now instant, stay int64) {
	sh := &t.shards[h%shards]
	if now.mono < sh.full.Load() {
		return
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	pools := make(map[string]*pool)
	if old := sh.pools.Load(); old != nil {
		if (*old)[b.Key] != nil {
			return
		}
		pools = maps.Clone(*old)
	}
	if len(pools) >= t.most {
		wait := int64(math.MaxInt64) // nanoseconds until a pool may go
		maps.DeleteFunc(pools, func(_ string, other *pool) bool {
			age := now.since(other.born)
			wait = min(wait, stay-age)
			return age >= stay && other.idle(now)
		})
		if len(pools) >= t.most && wait > 0 {
			sh.full.Store(now.mono + wait)
			return
		}
	}
	for key, other := range pools {
		if len(pools) < t.most {
			break
		}
		if now.since(other.born) >= stay {
			other.kill()
			delete(pools, key)
		}
	}
	p := newPool(b, now)
	pools[p.key] = p
	sh.pools.Store(&pools)
}

// drop takes p out of the table, with all that is left in it.
func (t *table) drop(h uint64, p *pool) {
	p.kill()
	sh := &t.shards[h%shards]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if old := sh.pools.Load(); old != nil && (*old)[p.key] == p {
		pools := maps.Clone(*old)
		delete(pools, p.key)
		sh.pools.Store(&pools)
	}
}
