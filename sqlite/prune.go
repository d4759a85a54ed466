package sqlite

import (
	"context"

	"github.com/brimgo/brim/store"
)

// Limits of one step of Prune.
const (
	pruneScan  = 2_000 // rows that are read in one statement
	pruneBatch = 1_000 // buckets that are removed in one commit
)

// Prune removes expired buckets, up to a thousand in a commit, so no caller waits long. It leaves
// damaged buckets alone and logs their number. If ctx ends or the store fails half-way, Prune returns
// the number of buckets removed so far, and the error.
func (s *Store) Prune(ctx context.Context) (pruned int64, err error) {
	damaged := 0
	for after, more := "", true; more && err == nil; {
		var keys []string
		err = s.run.Read(ctx, func(ctx context.Context) (err error) {
			keys, after, more, err = s.view(s.sql.On(ctx, nil)).expired(after, &damaged)
			return err
		})
		if err == nil && len(keys) > 0 {
			var answer reply
			answer, err = s.do(ctx, 0, request{kind: prune, keys: keys})
			pruned += answer.pruned
		}
	}
	if err == nil && damaged > 0 {
		s.options.Logger.Error("sqlite: prune passed over damaged buckets", "buckets", damaged)
	}
	return pruned, store.Wrap(backend, "prune", err)
}

// expired lists buckets that have expired, from the first after a key on, and counts damaged ones. It
// returns the last key that it has looked at, and whether there may be more.
func (v *view) expired(after string, damaged *int) (keys []string, last string, more bool, err error) {
	now, seen := v.s.run.Clock.Now(), 0
	last = after
	err = v.walk(after, func(key string, r *row) bool {
		if after != "" && key == after {
			return true
		}
		if more = seen == pruneScan || len(keys) == pruneBatch; more {
			return false
		}
		last = key
		seen++
		if r.damage != nil {
			*damaged++
		} else if r.rec.Expired(now, v.s.options.MaxSkew) {
			keys = append(keys, key)
		}
		return true
	})
	return keys, last, more, err
}
