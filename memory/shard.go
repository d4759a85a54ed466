package memory

import (
	"bytes"
	"context"
	"errors"
	"hash/maphash"
	"slices"
	"strings"
	"time"

	"github.com/brimgo/brim/store"
)

// shard returns the part that keeps key, and the hash by which its table finds it.
func (s *Store) shard(key string) (*shard, uint32) {
	h := maphash.String(s.seed, key)
	return &s.shards[h%shardCount], uint32(h >> 32)
}

// hash is the same hash of the key's bytes.
func (s *Store) hash(key []byte) uint32 { return uint32(maphash.Bytes(s.seed, key) >> 32) }

// tidy removes what has leaked empty before a bucket is added, now and then, so that each that comes pays for about one that
// goes. The shard is locked; pointers into its table may become invalid.
func (s *Store) tidy(sh *shard, now int64) {
	if sh.live >= max(firstPrune, sh.pruneAt) {
		s.pruneLocked(sh, now, s.maxSkew)
	}
}

// insert keeps the record of a new key. The shard is locked.
func (s *Store) insert(sh *shard, hash uint32, key string, r store.Record) error {
	if !s.counted(1) {
		return ErrTooManyBuckets
	}
	if !sh.insert(hash, key, r) {
		s.counted(-1)
		return ErrTooManyBuckets
	}
	return nil
}

const firstPrune = 64

// counted changes the number of buckets where they are bounded, and reports whether it may.
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

// pause is how long after a sweep for room there is no other, in microseconds.
const pause = int64(time.Second / time.Microsecond)

// sweep makes room in a bounded store and reports whether there is some.
func (s *Store) sweep(now int64) bool {
	after := s.sweepAfter.Load()
	// A time that is further ahead than that was set by a clock that has stepped back since.
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

// Apply decides transactions in order. Each holds the locks of its own buckets only. See [store.Store].
func (s *Store) Apply(ctx context.Context, txns ...store.Txn) ([]store.Result, error) {
	if err := s.ready(ctx); err != nil {
		return nil, store.Wrap(backend, "apply", err)
	}
	results := make([]store.Result, len(txns))
	for i, txn := range txns {
		results[i] = s.apply(txn)
		if errors.Is(results[i].Err, ErrTooManyBuckets) && s.sweep(s.clock.Now()) {
			results[i] = s.apply(txn)
		}
		results[i].Err = store.Wrap(backend, "apply", results[i].Err)
	}
	return results, nil
}

func (s *Store) apply(txn store.Txn) store.Result {
	defer s.lock(txn)()
	now := s.clock.Now()
	recs := make([]*store.Record, len(txn))
	before := make([]store.Record, len(txn))
	created := make(map[string]*store.Record)
	for i := range txn {
		sh, _ := s.shard(txn[i].Key)
		s.tidy(sh, now)
	}
	for i := range txn {
		key := txn[i].Key
		sh, hash := s.shard(key)
		if recs[i] = sh.find(hash, key); recs[i] == nil {
			if created[key] == nil {
				r := store.NewRecord(now)
				created[key] = &r
			}
			recs[i] = created[key]
		}
		before[i] = *recs[i]
	}
	res, effects := store.Decide(txn, recs, now, s.maxSkew)
	skewed := 0
	var inserted []string
	for i, effect := range effects {
		if effect&store.Skewed != 0 {
			skewed++
		}
		key := txn[i].Key
		r := created[key]
		if effect&store.Write == 0 || r == nil || slices.Contains(inserted, key) {
			continue
		}
		sh, hash := s.shard(key)
		if err := s.insert(sh, hash, key, *r); err != nil {
			// No room for one of them: none of them goes in.
			for _, k := range inserted {
				sh, hash := s.shard(k)
				sh.remove(hash, k)
			}
			s.counted(-int64(len(inserted)))
			for j := range recs {
				*recs[j] = before[j]
			}
			return store.Result{Err: err}
		}
		inserted = append(inserted, key)
	}
	if skewed > 0 {
		s.skewed(skewed)
	}
	return res
}

// lock locks the shards of a transaction, in order so that no two transactions wait for each other, and returns what unlocks
// them.
func (s *Store) lock(txn store.Txn) (unlock func()) {
	index := make([]int, 0, len(txn))
	for i := range txn {
		index = append(index, int(maphash.String(s.seed, txn[i].Key)%shardCount))
	}
	slices.Sort(index)
	index = slices.Compact(index)
	for _, i := range index {
		s.shards[i].mu.Lock()
	}
	return func() {
		for _, i := range index {
			s.shards[i].mu.Unlock()
		}
	}
}

// Scan lists buckets. The keys are not kept in order: a page costs a pass over all of them. See [store.Store].
func (s *Store) Scan(ctx context.Context, prefix, after string, limit int) ([]store.Entry, error) {
	if err := s.ready(ctx); err != nil || limit <= 0 {
		return nil, store.Wrap(backend, "scan", err)
	}
	var page []store.Entry
	start := []byte(prefix)
	last := "" // once the page is full, its greatest key: what comes after it is not wanted
	cut := func() {
		slices.SortFunc(page, func(a, b store.Entry) int { return strings.Compare(a.Key, b.Key) })
		if len(page) >= limit {
			page = page[:limit]
			last = page[limit-1].Key
		}
	}
	for i := range s.shards {
		if err := s.ready(ctx); err != nil {
			return nil, store.Wrap(backend, "scan", err)
		}
		sh := &s.shards[i]
		sh.mu.Lock()
		now := s.clock.Now()
		sh.each(func(key []byte, r *store.Record) {
			if string(key) > after && (last == "" || string(key) < last) && bytes.HasPrefix(key, start) {
				page = append(page, store.Entry{Key: string(key), State: r.State(store.Limit{}, now, s.maxSkew)})
			}
		})
		sh.mu.Unlock()
		if len(page) >= 2*limit {
			cut()
		}
	}
	cut()
	return page, nil
}
