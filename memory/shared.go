package memory

import (
	"fmt"
	"hash/maphash"
	"maps"
	"sync"

	"github.com/brimgo/brim/store"
)

// errFull is the error of a call that needs a new bucket of a full store, and that no shared bucket
// can decide.
var errFull = fmt.Errorf("%w: MaxBuckets buckets are in use, and none of them is empty", store.ErrFull)

const (
	// sharedCount is the number of shared buckets of a limit. A flood of new keys must fill all of
	// them before everybody who comes new is refused.
	sharedCount = 1024
	// maxShared is the number of limits that have shared buckets, which bounds their memory to 4
	// MB.
	maxShared = 64
)

// shared are the buckets that decide about new keys while the store is full. Without them, whoever
// fills the store would decide for all others: each new key would be refused, or, where the caller
// lets work through after an error, admitted without a limit.
//
// Each limit has buckets of its own, so that the units of one policy take no room from another. The
// hash of a key chooses the bucket. Nobody outside knows its seed, so nobody can aim at a bucket.
type shared struct {
	mu      sync.Mutex
	buckets map[store.Limit]*[sharedCount]store.Record
}

// shareable reports whether a shared bucket may decide op. A hold, a slot or a turn belongs to one
// owner, and a block to one key.
func shareable(op *store.Op) bool {
	return (op.Mode <= store.Clamp || op.Mode == store.Ask || op.Mode == store.UpTo) &&
		op.Amount >= 0 && op.Hold == 0 && !op.Turn && op.CeilingAt.IsZero()
}

// full reports whether the store has no place for another bucket.
func (s *Store) full() bool { return s.maxBuckets > 0 && s.count.Load() >= s.maxBuckets }

// sharedBy returns the shared bucket of op at the time now, or nil if too many limits have some.
// The caller has locked s.shared.
func (s *Store) sharedBy(op *store.Op, now int64) *store.Record {
	all := s.shared.buckets[op.Limit]
	if all == nil {
		maps.DeleteFunc(s.shared.buckets, func(l store.Limit, _ *[sharedCount]store.Record) bool {
			return l.LeakRate < 0 && now-s.maxSkew.Microseconds() >= int64(-l.LeakRate) // the period is over
		})
		if len(s.shared.buckets) == maxShared {
			return nil
		}
		if s.shared.buckets == nil {
			s.shared.buckets = make(map[store.Limit]*[sharedCount]store.Record)
		}
		all = new([sharedCount]store.Record)
		s.shared.buckets[op.Limit] = all
	}
	r := &all[maphash.String(s.seed, op.Key)>>8%sharedCount] // the bits that do not choose the shard
	if r.Limit == (store.Limit{}) {
		*r = store.NewRecord(now)
	}
	return r
}

// fillShared decides op by its shared bucket. No penalty blocks that bucket, because it would keep
// out others.
func (s *Store) fillShared(op store.Op) (st store.State, err error) {
	s.shared.mu.Lock()
	defer s.shared.mu.Unlock()
	now := s.clock.Now()
	r := s.sharedBy(&op, now)
	if r == nil {
		return st, errFull
	}
	op.BlockFor = 0
	st, _, err = r.Fill(&op, now, s.maxSkew)
	st.Estimate = true
	return st, err
}
