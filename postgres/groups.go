package postgres

import (
	"cmp"
	"iter"
	"slices"
	"strings"

	"github.com/brimgo/brim/internal/combine"
	"github.com/brimgo/brim/store"
)

// opKey yields the key whose row an operation locks. A question locks none.
func opKey(op store.Op) iter.Seq[string] {
	return func(yield func(string) bool) {
		if op.Mode != store.Ask {
			yield(op.Key)
		}
	}
}

// txnKeys yields the keys whose rows transactions lock.
func txnKeys(txns []store.Txn) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, txn := range txns {
			if txn.Asks() {
				continue
			}
			for i := range txn {
				if !yield(txn[i].Key) {
					return
				}
			}
		}
	}
}

type fillRequest = combine.Request[store.Op, store.State]

// combinable reports whether the combined statements can decide the operation: it has an amount and
// a limit, and nothing else.
func combinable(op *store.Op) bool {
	return op.Mode <= store.Always && op.Limit != (store.Limit{}) && op.Hold == 0 && op.Ceiling == 0 && op.BlockFor == 0 && (op.Mode != store.IfFits || op.Amount > 0)
}

// kind says which statement decides an operation, and in which order the operations of a key go
// in. Requests that are made at the same time have no order of their own. This order has a
// closed form.
type kind uint8

const (
	drains kind = iota
	adds
	clamps
	tries
)

func kindOf(op *store.Op) kind {
	switch {
	case op.Mode == store.IfFits:
		return tries
	case op.Mode == store.Clamp:
		return clamps
	case op.Amount < 0:
		return drains
	}
	return adds
}

// group is the requests of one key and limit for one statement.
type group struct {
	reqs []*fillRequest
}

func (g *group) op() *store.Op { return &g.reqs[0].In }

// sum returns the sum of the amounts of a group of TryFillups, added in their order.
func (g *group) sum() float64 {
	sum := 0.0
	for _, r := range g.reqs {
		sum += r.In.Amount
	}
	return sum
}

// groups are requests sorted into those for the try statement and those for the put statement,
// keys in byte order.
type groups struct {
	sorted     []*fillRequest
	tries, put []group
}

// sort makes groups of the requests. A group has one limit. sort postpones requests of its key
// with another limit, in their order, so that each limit has its turn.
func (g *groups) sort(reqs []*fillRequest) {
	g.tries, g.put = g.tries[:0], g.put[:0]
	g.sorted = append(g.sorted[:0], reqs...)
	slices.SortStableFunc(g.sorted, func(a, b *fillRequest) int { return strings.Compare(a.In.Key, b.In.Key) })
	for start := 0; start < len(g.sorted); {
		end := start + 1
		limit := g.sorted[start].In.Limit
		for end < len(g.sorted) && g.sorted[end].In.Key == g.sorted[start].In.Key {
			end++
		}
		g.split(g.sorted[start:end], limit)
		start = end
	}
}

// split makes the groups of one key.
func (g *groups) split(reqs []*fillRequest, limit store.Limit) {
	if len(reqs) > 1 {
		same := reqs[:0]
		for _, r := range reqs {
			if r.In.Limit == limit {
				same = append(same, r)
			} else {
				r.Postpone()
			}
		}
		reqs = same
		order := func(a, b *fillRequest) int {
			return cmp.Or(cmp.Compare(kindOf(&a.In), kindOf(&b.In)), cmp.Compare(a.In.Amount, b.In.Amount))
		}
		if !slices.IsSortedFunc(reqs, order) {
			slices.SortStableFunc(reqs, order)
		}
	}
	i := 0
	for i < len(reqs) && kindOf(&reqs[i].In) != tries {
		i++
	}
	if i > 0 {
		g.put = append(g.put, group{reqs: reqs[:i]})
	}
	if i < len(reqs) {
		g.tries = append(g.tries, group{reqs: reqs[i:]})
	}
}
