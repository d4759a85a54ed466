package bolt

import (
	"context"

	"github.com/brimgo/brim/internal/kv"
	"github.com/brimgo/brim/internal/records"
	"github.com/brimgo/brim/store"
)

// pruneScan is the largest number of records that one read transaction of Prune looks at.
const pruneScan = 10_000

// Prune removes expired buckets, up to a thousand in a flush, so no caller waits long. It leaves
// damaged buckets alone and logs their number. If ctx ends or the store fails half-way, Prune
// returns the number of buckets removed so far, and the error.
func (s *Store) Prune(ctx context.Context) (pruned int64, err error) {
	step := &records.Step{Scan: pruneScan}
	if err = s.check(ctx); err == nil {
		err = s.db.Checkpoint(ctx)
	}
	if err == nil {
		pruned, err = step.Run(func() error {
			if err := s.check(ctx); err != nil {
				return err
			}
			return s.db.Stored(func(tx *kv.Tx) error { return step.Next(&s.view(tx).View, s.clock.Now()) })
		}, func(keys []string) (int64, error) {
			answer, err := s.combiner.Do(ctx, 0, records.Request{Kind: records.Prune, Keys: keys})
			return answer.Pruned, err
		})
	}
	if err == nil && step.Damaged > 0 {
		s.options.Logger.Error("bolt: prune passed over damaged buckets", "buckets", step.Damaged)
	}
	return pruned, store.Wrap(backend, "prune", err)
}
