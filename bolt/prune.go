package bolt

import (
	"context"

	"github.com/brimgo/brim/internal/kv"
	"github.com/brimgo/brim/store"
)

// Limits of one step of Prune.
const (
	pruneScan  = 10_000 // records that one read transaction looks at
	pruneBatch = 1_000  // buckets that one flush removes at most
)

// Prune removes expired buckets, up to a thousand in a flush, so no caller waits long. It leaves
// damaged buckets alone and logs their number. If ctx ends or the store fails half-way, Prune
// returns the number of buckets removed so far, and the error.
func (s *Store) Prune(ctx context.Context) (pruned int64, err error) {
	if err = s.check(ctx); err == nil {
		err = s.db.Checkpoint(ctx)
	}
	damaged := 0
	for after, more := "", err == nil; more && err == nil; {
		if err = s.check(ctx); err != nil {
			break
		}
		var keys []string
		err = s.db.Stored(func(tx *kv.Tx) (err error) {
			keys, after, more, err = (&view{Tx: tx, s: s}).expired(after, &damaged)
			return err
		})
		if err == nil && len(keys) > 0 {
			var answer reply
			answer, err = s.combiner.Do(ctx, 0, request{kind: prune, keys: keys})
			pruned += answer.pruned
		}
	}
	if err != nil {
		return pruned, store.Wrap(backend, "prune", err)
	}
	if damaged > 0 {
		s.options.Logger.Error("bolt: prune passed over damaged buckets", "buckets", damaged)
	}
	return pruned, nil
}

// expired lists buckets that have expired, from the first after a key on, and counts damaged ones. It
// returns the last key that it has looked at, and whether there may be more.
func (v *view) expired(after string, damaged *int) (keys []string, last string, more bool, err error) {
	now, seen := v.s.clock.Now(), 0
	last = after
	err = v.walk(after, func(key string, r *store.Record) bool {
		if after != "" && key == after {
			return true
		}
		if more = seen == pruneScan || len(keys) == pruneBatch; more {
			return false
		}
		last = key
		seen++
		if r == nil {
			*damaged++
		} else if r.Expired(now, v.s.options.MaxSkew) {
			keys = append(keys, key)
		}
		return true
	})
	return keys, last, more, err
}
