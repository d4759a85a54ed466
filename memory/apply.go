package memory

import (
	"context"
	"errors"
	"hash/maphash"
	"slices"

	"github.com/brimgo/brim/store"
)

// Apply decides transactions in order. Each transaction locks only the shards of its own
// buckets. See [store.Store].
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

// apply decides one transaction.
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
			// There is no room for one of the buckets, so the transaction changes none of
			// them.
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

// lock locks the shards of a transaction and returns a function that unlocks them. It locks in
// the order of the shards, so that transactions cannot deadlock.
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
