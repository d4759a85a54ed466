package history

import (
	"math/rand/v2"

	"github.com/brimgo/brim/store"
)

// Random returns a history of n calls for a subject. names is the share of calls, in percent, that
// make, replace or close files.
func Random(r *rand.Rand, subject Subject, n, names int) []Op {
	ops := make([]Op, n)
	for i := range ops {
		switch {
		case r.IntN(100) < names:
			ops[i] = Op{Kind: [...]Kind{Compact, Compact, Reopen}[r.IntN(3)]}
		case subject.spends() && r.IntN(2) == 0:
			ops[i] = Op{Kind: [...]Kind{Authorize, Capture, Refund}[r.IntN(3)], Keys: []int{r.IntN(Spends)}}
		default:
			ops[i] = randomOp(r)
		}
	}
	return ops
}

func randomOp(r *rand.Rand) Op {
	switch n := r.IntN(100); {
	case n < 40:
		return Op{Kind: Fill, Txns: [][]Move{{randomMove(r)}}}
	case n < 50:
		op := Op{Kind: Together}
		key := r.IntN(Keys)
		for range 2 + r.IntN(3) {
			m := randomMove(r)
			if r.IntN(2) == 0 {
				m.Key = key // callers of one bucket
			}
			op.Txns = append(op.Txns, []Move{m})
		}
		return op
	case n < 75:
		op := Op{Kind: Apply}
		for range 1 + r.IntN(12) {
			txn := make([]Move, 0, 3)
			for _, k := range r.Perm(Keys)[:1+r.IntN(3)] {
				m := randomMove(r)
				m.Key = k
				if m.Mode == store.Clamp { // spilling is told of a single fill only
					m.Mode = store.IfFits
				}
				txn = append(txn, m)
			}
			op.Txns = append(op.Txns, txn)
		}
		return op
	case n < 85:
		return Op{Kind: Delete, Keys: r.Perm(Keys)[:1+r.IntN(8)]}
	case n < 88:
		return Op{Kind: Prune}
	case n < 94:
		return Op{Kind: Tick, Seconds: 1 + r.IntN(20)}
	}
	return Op{Kind: Sync}
}

func randomMove(r *rand.Rand) Move {
	m := Move{Key: r.IntN(Keys), Amount: float64(1 + r.IntN(24))}
	switch r.IntN(6) {
	case 0:
		m.Mode = store.Clamp
	case 1:
		m.Mode = store.Always
	case 2:
		m.Hold = float64(1 + r.IntN(5))
	case 3:
		m.Mode, m.Hold = store.Always, -float64(1+r.IntN(5))
	}
	return m
}
