package history

import (
	"context"
	"errors"
	"fmt"

	"github.com/brimgo/brim/store"
)

// Call carries out op on s. Compact and Sync are for stores that have such a method.
func Call(ctx context.Context, s store.Store, op Op) Answer { return CallOn(ctx, s, bucketOf, op) }

// CallOn is Call on other buckets than those of [Random].
func CallOn(ctx context.Context, s store.Store, b Bucket, op Op) Answer {
	switch op.Kind {
	case Fill:
		return put(ctx, s, b, op.Txns[0][0])
	case Together:
		return together(ctx, s, b, op)
	case Apply:
		return apply(ctx, s, b, op)
	case Read:
		buckets := make([]store.Bucket, len(op.Keys))
		for i, k := range op.Keys {
			buckets[i] = b(k)
		}
		states, err := s.Read(ctx, buckets...)
		if err != nil {
			return Failed(err)
		}
		return Answer{Results: []Result{{States: states}}}
	case Delete:
		keys := make([]string, len(op.Keys))
		for i, k := range op.Keys {
			keys[i] = b(k).Key
		}
		return Failed(s.Delete(ctx, keys...))
	case Prune:
		_, err := s.Prune(ctx)
		return Failed(err)
	case Compact:
		if file, ok := s.(Backend); ok {
			_, _, err := file.Compact(ctx)
			if errors.Is(err, errors.ErrUnsupported) { // a Joined store has no file to compact
				err = nil
			}
			return Failed(err)
		}
	case Sync:
		if lazy, ok := s.(interface{ Sync(context.Context) error }); ok {
			return Failed(lazy.Sync(ctx))
		}
		return Answer{}
	}
	return Answer{Err: NotApplied, Text: fmt.Sprintf("there is no call %q", op.Kind)}
}

// put fills one bucket.
func put(ctx context.Context, s store.Store, b Bucket, m Move) Answer {
	st, err := s.Fill(ctx, m.Op(b))
	if errors.Is(err, store.ErrNotHeld) {
		return Answer{Results: []Result{{NotHeld: true}}}
	}
	if err != nil {
		return Failed(err)
	}
	return Answer{Results: []Result{{Accepted: st.Accepted, States: []store.State{st}}}}
}

func apply(ctx context.Context, s store.Store, b Bucket, op Op) Answer {
	txns := make([]store.Txn, len(op.Txns))
	for i, moves := range op.Txns {
		txns[i] = txn(b, moves)
	}
	results, err := s.Apply(ctx, txns...)
	if err != nil {
		return Failed(err)
	}
	var a Answer
	for _, res := range results {
		switch {
		case errors.Is(res.Err, store.ErrNotHeld):
			a.Results = append(a.Results, Result{NotHeld: true})
		case res.Err != nil:
			return Failed(res.Err)
		default:
			a.Results = append(a.Results, Result{Accepted: res.Accepted, States: res.States})
		}
	}
	return a
}

// Failed returns the answer of a call that has no result but its error.
func Failed(err error) Answer {
	switch {
	case err == nil:
		return Answer{}
	case errors.Is(err, store.ErrUnknownOutcome):
		return Answer{Err: Unknown, Text: err.Error()}
	}
	return Answer{Err: NotApplied, Text: err.Error(), Odd: Odd(err)}
}

// Odd reports whether an error is none by which a store or a ledger tells that nothing was applied
// to a sound call.
func Odd(err error) bool {
	return !errors.Is(err, store.ErrUnavailable) &&
		!errors.Is(err, store.ErrMisconfigured) && // a bolt file whose sync has failed, until it is opened again
		!errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled)
}
