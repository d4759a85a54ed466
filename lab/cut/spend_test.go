package cut

import (
	"context"
	"fmt"

	"github.com/brimgo/brim/lab/internal/serverload"
)

// asking returns the exchange of a question to a ledger. The account of the question has carried
// out the first step of a call of that kind.
func asking(name string, k serverload.Kind, ask func(context.Context, *serverload.Ledger, serverload.Call) error) exchange {
	return exchange{
		name: name, kind: k, looks: true,
		before: func(ctx context.Context, r *rig, c serverload.Call) error { return r.soundLedger.Do(ctx, c, 0) },
		call:   whole(func(ctx context.Context, r *rig, c serverload.Call) error { return ask(ctx, r.ledger, c) }),
		stage: func(ctx context.Context, r *rig, c serverload.Call) ([]int, error) {
			stages, err := r.soundLedger.Look(ctx, []serverload.Call{c})
			if err != nil || stages[0] != 1 {
				return []int{serverload.Doubled}, err
			}
			return []int{0}, nil
		},
	}
}

var remaining = asking("remaining", serverload.Charge, func(ctx context.Context, l *serverload.Ledger, c serverload.Call) error {
	used, err := l.Used(ctx, c)
	if err == nil && used != 3_00 {
		return fmt.Errorf("%d are used, want 300", used)
	}
	return err
})

var get = asking("get", serverload.Settle, func(ctx context.Context, l *serverload.Ledger, c serverload.Call) error {
	s, err := l.Hold(ctx, c)
	if err == nil && (s.Held.Minor != 3_00 || s.Total.Minor != 3_00) {
		return fmt.Errorf("the spend is %+v, want 300 held", s)
	}
	return err
})

var holds = asking("holds", serverload.Settle, func(ctx context.Context, l *serverload.Ledger, c serverload.Call) error {
	list, err := l.Holds(ctx, c)
	if err == nil && (len(list) != 1 || list[0].Held.Minor != 3_00) {
		return fmt.Errorf("the holds are %+v, want one of 300", list)
	}
	return err
})

var history = asking("history", serverload.Settle, func(ctx context.Context, l *serverload.Ledger, c serverload.Call) error {
	list, err := l.History(ctx, c)
	if err == nil && (len(list) != 1 || list[0].Kind != "authorize" || list[0].Held.Minor != 3_00) {
		return fmt.Errorf("the entries are %+v, want an authorization of 300", list)
	}
	return err
})

// remembered is a charge on an account that the ledger has just stored, which takes one round trip.
var remembered = exchange{
	name: "charge, remembered", kind: serverload.Charge,
	before: func(ctx context.Context, r *rig, c serverload.Call) error {
		c.ID = "before " + c.ID
		return r.ledger.Do(ctx, c, 0)
	},
	call: whole(func(ctx context.Context, r *rig, c serverload.Call) error { return r.ledger.Do(ctx, c, 0) }),
	stage: func(ctx context.Context, r *rig, c serverload.Call) ([]int, error) {
		return r.soundLedger.Look(ctx, []serverload.Call{c})
	},
}

// chargeAll charges several accounts by independent requests.
var chargeAll = exchange{
	name: "charge all", kind: serverload.Charge,
	before: func(context.Context, *rig, serverload.Call) error { return nil },
	call:   func(ctx context.Context, r *rig, c serverload.Call) []error { return r.ledger.ChargeAll(ctx, c) },
	stage: func(ctx context.Context, r *rig, c serverload.Call) ([]int, error) {
		times, err := r.soundLedger.LookAll(ctx, c)
		for i, n := range times {
			if n > 1 {
				times[i] = serverload.Doubled
			}
		}
		return times, err
	},
}

// pruneSpends ends an expired hold and removes its ID, in two transactions.
var pruneSpends = exchange{
	name: "prune", kind: serverload.Charge,
	before: func(ctx context.Context, r *rig, c serverload.Call) error { return r.soundLedger.Expire(ctx, c) },
	call:   func(ctx context.Context, r *rig, _ serverload.Call) []error { return r.ledger.Prune(ctx) },
	stage:  func(ctx context.Context, r *rig, _ serverload.Call) ([]int, error) { return r.soundLedger.Pruned(ctx) },
}
