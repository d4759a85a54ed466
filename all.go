package brim

import (
	"context"

	"github.com/brimgo/brim/store"
)

// Fill is an amount for a bucket, for [Limiter.TryFillupAll].
type Fill struct {
	Bucket Bucket
	Amount float64
}

// TryFillupAll puts every amount into its bucket if all of them fit, and changes nothing if one does not: a card, its
// account and the whole company, decided in one atomic step. It answers with one State per fill, in the order given.
//
// Accepted is the same in all of them. After a refusal only the buckets that refused have a RetryAfter, which says which
// limit it was. Amounts for one key add up; one key with two limits is [ErrInvalidLimit]. Any number of callers may name any
// buckets in any order: they do not deadlock.
//
// If the error is [ErrUnknownOutcome], all of it may have gone in. Any other error means that nothing did.
func (l *Limiter) TryFillupAll(ctx context.Context, fills ...Fill) ([]State, error) {
	if len(fills) == 0 {
		return nil, nil
	}
	txn, index, err := l.merge(fills)
	if err != nil {
		return nil, err
	}
	results, err := l.backend().Apply(ctx, txn)
	if err != nil {
		return nil, err
	}
	if err := results[0].Err; err != nil {
		return nil, err
	}
	states := make([]State, len(fills))
	for i := range fills {
		states[i] = results[0].States[index[i]]
	}
	return states, nil
}

// merge makes one operation per key, and says which is that of each fill.
func (l *Limiter) merge(fills []Fill) (txn store.Txn, index []int, err error) {
	txn = make(store.Txn, 0, len(fills))
	index = make([]int, len(fills))
	seen := make(map[Bucket]int, len(fills))
	for i, f := range fills {
		if err := f.Bucket.Limit.Validate(); err != nil {
			return nil, nil, err
		}
		if err := f.Bucket.ValidateAmount(f.Amount); err != nil {
			return nil, nil, err
		}
		f.Bucket.Key = l.full(f.Bucket.Key)
		at, ok := seen[f.Bucket]
		if !ok {
			at = len(txn)
			seen[f.Bucket] = at
			op := store.Op{Bucket: f.Bucket, Mode: store.IfFits, BlockFor: l.penalty}
			txn = append(txn, op)
		}
		txn[at].Amount += f.Amount
		index[i] = at
	}
	return txn, index, txn.Validate()
}
