package memory

import (
	"context"
	"unsafe"

	"github.com/brimgo/brim/store"
)

// Size returns the bytes of memory that the buckets and their keys take, with the room that is
// free for later ones. See [store.Store].
func (s *Store) Size(ctx context.Context) (int64, error) {
	if err := s.ready(ctx); err != nil {
		return 0, store.Wrap(backend, "size", err)
	}
	size := 0
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		size += sh.size()
		sh.mu.Unlock()
	}
	return int64(size), nil
}

// size returns the bytes of the table.
func (t *table) size() int {
	bytes := cap(t.slots)*int(unsafe.Sizeof(slot{})) + cap(t.limits)*int(unsafe.Sizeof(store.Limit{}))
	for _, page := range t.keys.pages {
		bytes += cap(page)
	}
	if w := t.wide; w != nil {
		bytes += cap(w.records)*int(unsafe.Sizeof(store.Record{})) + cap(w.free)*8
	}
	return bytes
}
