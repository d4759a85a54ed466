package sqlite

import (
	"context"

	"github.com/brimgo/brim/internal/records"
	"github.com/brimgo/brim/store"
)

// pruneScan is the largest number of rows that one statement of Prune reads.
const pruneScan = 2_000

// Prune removes expired buckets, up to a thousand in a commit, so no caller waits long. It leaves
// damaged buckets alone and logs their number. If ctx ends or the store fails half-way, Prune
// returns the number of buckets removed so far, and the error.
func (s *Store) Prune(ctx context.Context) (int64, error) {
	step := &records.Step{Scan: pruneScan}
	pruned, err := step.Run(func() error {
		return s.look(ctx, nil, func(v *view, now int64) error { return step.Next(&v.View, now) })
	}, func(keys []string) (int64, error) {
		answer, err := s.do(ctx, 0, records.Request{Kind: records.Prune, Keys: keys})
		return answer.Pruned, err
	})
	if err == nil && step.Damaged > 0 {
		s.options.Logger.Error("sqlite: prune passed over damaged buckets", "buckets", step.Damaged)
	}
	return pruned, store.Wrap(backend, "prune", err)
}
