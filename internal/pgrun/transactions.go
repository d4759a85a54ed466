package pgrun

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"
)

// NewTransactions returns a combiner whose flushes are one transaction each. transact begins,
// decides and commits a transaction for a batch on the lane's connection; it sets the Err of a
// request that fails by itself. Where the server refuses the transaction of a batch, each request
// gets a transaction of its own, so that one bad request fails alone.
func NewTransactions[Q, A any](
	r *Runner, b Batching, rows Rows[Q], transact func(context.Context, *Lane, *pgxpool.Conn, Batch[Q, A]) error,
) (*Combiner[Q, A], error) {
	return NewCombiner(r, b, rows, func(l *Lane) Flush[Q, A] {
		attempt := func(ctx context.Context, batch Batch[Q, A]) error {
			err := l.Attempt(ctx, func(conn *pgxpool.Conn) error {
				for _, request := range batch {
					request.Err = nil // of an attempt before
				}
				return transact(ctx, l, conn, batch)
			})
			if err != nil {
				for _, request := range batch {
					request.Err = err
				}
			}
			return err
		}
		return func(ctx context.Context, batch Batch[Q, A]) (open Batch[Q, A]) {
			switch err := attempt(ctx, batch); {
			case Stalled(err):
				return batch
			case Refused(err) && len(batch) > 1:
				for i := range batch {
					if Stalled(attempt(ctx, batch[i:i+1])) {
						open = append(open, batch[i])
					}
				}
			}
			return open
		}
	})
}
