package memory

import (
	"bytes"
	"context"

	"github.com/brimgo/brim/store"
)

// visitPiece is the number of slots that Visit looks at while it holds the lock of a shard. It
// takes about a tenth of a millisecond.
const visitPiece = 1024

// Visit passes over all buckets once, in no order. It locks a small part of the store at a time,
// and holds no lock while f runs. See [store.Store].
func (s *Store) Visit(ctx context.Context, prefix string, f func(store.Entry) bool) error {
	start := []byte(prefix)
	var piece []store.Entry
	for i := range s.shards {
		for at := uint64(0); at < visitEnd; {
			if err := s.ready(ctx); err != nil {
				return store.Wrap(backend, "visit", err)
			}
			piece, at = s.visitShard(&s.shards[i], at, start, piece[:0])
			for _, e := range piece {
				if !f(e) {
					return nil
				}
			}
		}
	}
	return nil
}

// visitEnd is above all hashes.
const visitEnd = 1 << 32

// visitShard appends the next buckets of a shard whose keys start with prefix, and returns the
// hash from which the next piece follows.
//
// The pieces are ranges of hashes. A bucket that moves to another slot between two pieces keeps
// its hash, so it is visited exactly once.
func (s *Store) visitShard(sh *shard, from uint64, prefix []byte, piece []store.Entry) (_ []store.Entry, to uint64) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	slots := len(sh.slots)
	if slots == 0 {
		return piece, visitEnd
	}
	now := s.clock.Now()
	first := sh.home(uint32(from))
	to = visitEnd
	if end := first + visitPiece; end < slots {
		to = (uint64(end)<<32 + uint64(slots) - 1) / uint64(slots) // the lowest hash with that home
	}
	// A bucket stands at its home or behind it, and there is no free slot between them. So the
	// piece ends at the first free slot behind the last home.
	for i, seen := first, 0; seen < slots; i, seen = sh.next(i), seen+1 {
		n := &sh.slots[i].name
		if n.free() {
			if seen >= visitPiece {
				break
			}
			continue
		}
		key := sh.keys.bytes(n)
		if h := uint64(sh.hashOf(n)); h < from || h >= to || !bytes.HasPrefix(key, prefix) {
			continue
		}
		var r store.Record
		sh.load(&sh.slots[i], &r)
		piece = append(piece, store.Entry{Key: string(key), State: r.State(store.Limit{}, now, s.maxSkew)})
	}
	return piece, to
}
