package brim

import (
	"context"
	"errors"
	"fmt"
)

// ErrOverLimit is what [errors.Is] finds in an [*OverLimitError]: the amount did not fit, and nothing was done.
var ErrOverLimit = errors.New("over the limit")

// OverLimitError is the error of a Do whose amount did not fit. Nothing went in and the function did not run.
type OverLimitError struct {
	State // what refused: RetryAfter says when to come back, or [Never]
}

func (e *OverLimitError) Error() string {
	switch {
	case e.RetryAfter != Never:
		return fmt.Sprintf("brim: %v: it would fit in %v", ErrOverLimit, e.RetryAfter)
	case e.LeakRate == 0:
		return fmt.Sprintf("brim: %v: %v units are left of %v, and the bucket does not leak", ErrOverLimit, e.Remaining(), e.Capacity)
	}
	return fmt.Sprintf("brim: %v: it can never fit; the bucket takes %v units at most", ErrOverLimit, e.Capacity-e.Held)
}

// Is reports whether target is [ErrOverLimit].
func (e *OverLimitError) Is(target error) bool { return target == ErrOverLimit }

// Do calls f if n units fit into b, and puts them in first; what f returns is the answer. If they do not fit, f is not called
// and the answer is an [*OverLimitError]. If the store fails f is not called either, and the answer is the store's error.
//
// The units stay in whatever f does: an attempt counts. To give them back, use [Limiter.Drain].
func (l *Limiter) Do(ctx context.Context, b Bucket, n float64, f func(context.Context) error) error {
	return do(ctx, b, n, f, l.TryFillup)
}

// Do calls f when it is the turn of n units in b, as [Limiter.Do] does where they fit at once. If the turn would come too late
// the answer is an [*OverLimitError], at once; see [Shaper.Wait].
func (s *Shaper) Do(ctx context.Context, b Bucket, n float64, f func(context.Context) error) error {
	return do(ctx, b, n, f, s.Wait)
}

func do(ctx context.Context, b Bucket, n float64, f func(context.Context) error, enter func(context.Context, Bucket, float64) (State, error)) error {
	st, err := enter(ctx, b, n)
	switch {
	case err != nil:
		return err
	case !st.Accepted:
		return &OverLimitError{st}
	}
	return f(ctx)
}
