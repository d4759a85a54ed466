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
		if s.full() {
			s.sweep(s.clock.Now())
		}
		results[i] = s.apply(txn, s.full())
		if errors.Is(results[i].Err, errFull) { // there are fewer places than new keys
			s.sweep(s.clock.Now())
			results[i] = s.apply(txn, true)
		}
		results[i].Err = store.Wrap(backend, "apply", results[i].Err)
	}
	return results, nil
}

// touched is a bucket of a transaction.
type touched struct {
	key    string
	rec    store.Record
	stored bool          // the bucket exists
	shared *store.Record // the shared bucket that decides in its place, or nil
	write  bool
}

// apply decides one transaction. With sharing, shared buckets decide about new keys.
func (s *Store) apply(txn store.Txn, sharing bool) store.Result {
	defer s.lock(txn)()
	now := s.clock.Now()
	buckets := make([]touched, 0, len(txn)) // never grows, because recs point into it
	index := make(map[string]int, len(txn))
	recs := make([]*store.Record, len(txn))
	for i := range txn { // before any record is loaded, because tidy may remove it
		sh, _ := s.shard(txn[i].Key)
		s.tidy(sh, now)
	}
	if sharing {
		txn = slices.Clone(txn)
		s.shared.mu.Lock()
		defer s.shared.mu.Unlock()
	}
	for i := range txn {
		key := txn[i].Key
		at, ok := index[key]
		if !ok {
			at = len(buckets)
			sh, hash := s.shard(key)
			b := touched{key: key, rec: store.NewRecord(now)}
			if e := sh.find(hash, key); e != nil {
				sh.load(e, &b.rec)
				b.stored = true
			} else if sharing && allShareable(txn, key) {
				if b.shared = s.sharedBy(&txn[i], now); b.shared == nil {
					return store.Result{Err: errFull}
				}
				b.rec = *b.shared
				if same := slices.IndexFunc(buckets, func(o touched) bool { return o.shared == b.shared }); same >= 0 {
					at = same
				}
			}
			index[key] = at
			if at == len(buckets) {
				buckets = append(buckets, b)
			}
		}
		recs[i] = &buckets[at].rec
		if buckets[at].shared != nil {
			txn[i].BlockFor = 0 // a block would keep out others
		}
	}
	res, effects := store.Decide(txn, recs, now, s.maxSkew)
	skewed := 0
	for i, effect := range effects {
		if effect&store.Skewed != 0 {
			skewed++
		}
		if effect&store.Write != 0 {
			buckets[index[txn[i].Key]].write = true
		}
	}
	if err := s.write(buckets); err != nil {
		return store.Result{Err: err}
	}
	if skewed > 0 {
		s.skewed(skewed)
	}
	for i := range res.States {
		res.States[i].Estimate = buckets[index[txn[i].Key]].shared != nil
	}
	return res
}

// allShareable reports whether a shared bucket may decide all operations of a transaction on a key.
func allShareable(txn store.Txn, key string) bool {
	return !slices.ContainsFunc(txn, func(op store.Op) bool { return op.Key == key && !shareable(&op) })
}

// write stores the buckets that changed, or none if there is no room for a new one. The caller
// has locked their shards.
func (s *Store) write(buckets []touched) error {
	for i := range buckets {
		b := &buckets[i]
		if !b.write || b.stored || b.shared != nil {
			continue
		}
		sh, hash := s.shard(b.key)
		if err := s.insert(sh, hash, b.key, &b.rec); err != nil {
			for _, before := range buckets[:i] {
				if before.write && !before.stored && before.shared == nil {
					sh, hash := s.shard(before.key)
					sh.remove(hash, before.key)
					s.counted(-1)
				}
			}
			return err
		}
	}
	for i := range buckets {
		switch b := &buckets[i]; {
		case b.write && b.stored:
			sh, hash := s.shard(b.key)
			sh.save(sh.find(hash, b.key), &b.rec)
		case b.write && b.shared != nil:
			*b.shared = b.rec
		}
	}
	return nil
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
