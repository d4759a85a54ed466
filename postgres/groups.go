package postgres

import (
	"cmp"
	"slices"
	"strings"

	"github.com/brimgo/brim/internal/combine"
	"github.com/brimgo/brim/store"
)

type fillRequest = combine.Request[store.Op, store.State]

// combinable reports whether the plain statements can decide the operation: it is a TryFillup, or a
// booking, which has a ceiling.
func combinable(op *store.Op) bool {
	return op.Mode == store.IfFits && op.Amount > 0 && op.Limit != (store.Limit{}) &&
		op.Hold == 0 && op.CeilingAt.IsZero() && op.BlockFor == 0
}

// group is the TryFillups of one key, limit, period and ceiling for one statement.
type group struct {
	reqs []*fillRequest
}

func (g *group) op() *store.Op { return &g.reqs[0].In }

// rim returns the units that the bucket may contain afterwards.
func (g *group) rim() float64 {
	if op := g.op(); op.Ceiling != 0 {
		return op.Ceiling
	}
	return g.op().Capacity
}

// sum returns the sum of the amounts, added in their order.
func (g *group) sum() float64 {
	sum := 0.0
	for _, r := range g.reqs {
		sum += r.In.Amount
	}
	return sum
}

// fresh returns the level of a new bucket: the sum of the amounts that fit into it, in their order.
// If the first does not fit, fresh returns that, which is above the rim.
func (g *group) fresh() float64 {
	level := g.op().Amount
	sum := 0.0
	for _, r := range g.reqs {
		if sum += r.In.Amount; sum <= g.rim() {
			level = sum
		}
	}
	return level
}

// groups are TryFillups sorted by key, in byte order.
type groups struct {
	sorted []*fillRequest
	tries  []group
}

// sort makes groups of the requests, each in ascending order of amount. Requests that are made at
// the same time have no order of their own. A group has one limit, period and ceiling. sort
// postpones requests of its key with others, in their order, so that each has its turn.
func (g *groups) sort(reqs []*fillRequest) []group {
	g.tries = g.tries[:0]
	g.sorted = append(g.sorted[:0], reqs...)
	slices.SortStableFunc(g.sorted, func(a, b *fillRequest) int { return strings.Compare(a.In.Key, b.In.Key) })
	for start := 0; start < len(g.sorted); {
		first := &g.sorted[start].In
		same := g.sorted[start:start]
		for ; start < len(g.sorted) && g.sorted[start].In.Key == first.Key; start++ {
			if r := g.sorted[start]; r.In.Limit == first.Limit && r.In.Ceiling == first.Ceiling && r.In.Begins == first.Begins {
				same = append(same, r)
			} else {
				r.Postpone()
			}
		}
		if len(same) > 1 {
			slices.SortStableFunc(same, func(a, b *fillRequest) int { return cmp.Compare(a.In.Amount, b.In.Amount) })
		}
		g.tries = append(g.tries, group{reqs: same})
	}
	return g.tries
}
