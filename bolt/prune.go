package bolt

import (
	"context"
	"errors"
	"time"

	"go.etcd.io/bbolt"

	"github.com/brimgo/brim/internal/pruner"
	"github.com/brimgo/brim/store"
)

// Limits of one step of Prune. The buckets of a batch lie close together, so its commit takes
// about as long as the commit of as many callers.
const (
	pruneScan  = 10_000 // records that one read transaction looks at
	pruneBatch = 1_000  // buckets that one commit removes at most
)

// Prune removes expired buckets, up to a thousand in a commit, so no caller waits long. It leaves
// damaged buckets alone and logs their number. If ctx ends or the store fails half-way, Prune
// returns the number of buckets removed so far, and the error.
func (s *Store) Prune(ctx context.Context) (int64, error) {
	if l := s.logged; l != nil {
		if err := l.sync(ctx); err != nil {
			return 0, store.Wrap(backend, "prune", err)
		}
		l.mem.expire()
	}
	return s.pruneFile(ctx)
}

// startPruner starts the goroutine of Options.PruneEvery, which calls prune.
func (s *Store) startPruner(prune func(context.Context) (int64, error)) {
	s.pruner = pruner.Start(s.options.PruneEvery, prune, backend, s.options.Logger)
}

// pruneFile removes the buckets that have expired in the file. A bucket that has expired is as good
// as none, so the journal need not know.
func (s *Store) pruneFile(ctx context.Context) (int64, error) {
	var pruned int64
	damaged := 0
	for after, more := "", true; more; {
		if err := s.check(ctx); err != nil {
			return pruned, store.Wrap(backend, "prune", err)
		}
		var keys []string
		err := s.read(func(records *bbolt.Bucket) error {
			now := s.clock.Now()
			c := records.Cursor()
			key, value := c.Seek([]byte(after))
			if string(key) == after {
				key, value = c.Next()
			}
			seen := 0
			for ; key != nil && seen < pruneScan && len(keys) < pruneBatch; key, value = c.Next() {
				seen++
				after = string(key)
				rec, _, err := s.layout.decodeRecord(key, value)
				if errors.Is(err, store.ErrCorrupt) {
					damaged++
				} else if rec.Expired(now, s.options.MaxSkew) {
					keys = append(keys, after)
				}
			}
			more = key != nil
			return nil
		})
		if err == nil && len(keys) > 0 {
			var n int64
			n, err = s.removeExpired(ctx, keys)
			pruned += n
		}
		if err != nil {
			return pruned, store.Wrap(backend, "prune", err)
		}
	}
	if damaged > 0 {
		s.options.Logger.Error("bolt: prune passed over damaged buckets", "buckets", damaged)
	}
	return pruned, nil
}

// removeExpired removes the buckets of keys that have expired by now, and returns their number.
func (s *Store) removeExpired(ctx context.Context, keys []string) (n int64, err error) {
	if err := s.file.Lock(ctx); err != nil {
		return 0, err
	}
	defer s.file.Unlock()
	start := time.Now()
	v := s.newView()
	err = s.write(v, func() error {
		n = v.prune(keys, s.clock.Now())
		return nil
	})
	if tell := s.options.Trace.Flush; tell != nil {
		tell(store.Flush{Backend: backend, Requests: 1, Took: time.Since(start), Err: err})
	}
	if err != nil {
		n = 0
	}
	return n, err
}
