package lin

import (
	"context"
	"fmt"
)

// canceled counts the entries of a kind about request 1, after it was canceled past the tap: by
// another process. It returns an error if the account still holds or uses money, or if the request
// has an effect when it is sent again.
func canceled(kind string) func(context.Context, *attempt) ([]int, error) {
	return func(ctx context.Context, a *attempt) ([]int, error) {
		b, n := a.past.spends.main, 0
		if _, err := b.Cancel(ctx, a.past.spends.b.id(1), "0"); err != nil {
			return nil, err
		}
		if out := a.past.spends.call(ctx, authorized[0].(spendRequest)); out.Err != "" || out.Approved || !out.Replayed {
			return nil, fmt.Errorf("%w: a canceled request that is sent again: %+v", errFalse, out)
		}
		list, err := b.Remaining(ctx, "0")
		if err != nil {
			return nil, err
		}
		for _, u := range list {
			if u.Used.Minor != 0 || u.Held.Minor != 0 {
				return nil, fmt.Errorf("%w: after the cancellation: %+v", errFalse, u)
			}
		}
		for e, err := range b.History(ctx, "0", nil) {
			if err != nil {
				return nil, err
			}
			if e.Kind == kind {
				n++
			}
		}
		return []int{n}, b.Verify(ctx, "0")
	}
}

// cancelCall cancels request 1 through the tap.
func cancelCall(ctx context.Context, a *attempt) []error {
	_, err := a.through.spends.main.Cancel(ctx, a.through.spends.b.id(1), "0")
	return []error{err}
}

// cancelExchanges are an authorization that another process cancels, and cancellations of a request
// that was decided, and of one that was not.
var cancelExchanges = []exchange{
	{name: "authorize, canceled elsewhere", special: &special{
		spends: true,
		call: func(ctx context.Context, a *attempt) []error {
			_, err := a.through.spends.send(ctx, authorized[0].(spendRequest))
			return []error{err}
		},
		look: canceled("authorize"),
	}},
	{name: "cancel", special: &special{
		spends: true,
		before: func(ctx context.Context, a *attempt) error { return a.record(ctx, authorized[0]) },
		call:   cancelCall,
		look:   once(canceled("cancel")),
	}},
	{name: "cancel before the request", special: &special{spends: true, call: cancelCall, look: once(canceled("cancel"))}},
}

// once wants that the part was applied once in the end: by the call or by the look.
func once(look func(context.Context, *attempt) ([]int, error)) func(context.Context, *attempt) ([]int, error) {
	return func(ctx context.Context, a *attempt) ([]int, error) {
		n, err := look(ctx, a)
		if err == nil && n[0] != 1 {
			err = fmt.Errorf("%w: %d cancellations, want 1", errFalse, n[0])
		}
		return nil, err
	}
}
