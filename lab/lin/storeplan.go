package lin

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/brimgo/brim/lab/internal/history"
	"github.com/brimgo/brim/store"
)

// style tells which calls a store's histories have.
type style struct {
	single  bool // no call touches two buckets
	back    bool // the clock steps back, too
	clock   bool // the history has the store's clock
	compact bool // Compact
	fills   bool // nothing but fills that make no room
	asks    bool // questions, too
	updates bool // transactions of several fills, too
	jumps   bool // the clock makes long steps, too
	sure    bool // at least one strike
	keep    bool // no Prune
	impatient,
	strikes int // at most
}

// planStore returns a random plan for a store.
func planStore(r *rand.Rand, s style) plan {
	p := plan{strikes: make(map[int64]bool), seed: r.Uint64()}
	s.jumps = s.back && r.IntN(2) == 0
	s.keep = s.keep || s.jumps // the model does not know which buckets a jump has emptied for long
	for range each {
		for c := range clients {
			p.steps = append(p.steps, step{client: c, in: storeRequest{s.op(r)}})
		}
	}
	p.disturb(r, s.impatient, s.strikes, s.sure)
	return p
}

// disturb adds strikes and contexts that end.
func (p *plan) disturb(r *rand.Rand, impatient, strikes int, sure bool) {
	if impatient > 0 {
		for range r.IntN(impatient + 1) {
			p.steps[r.IntN(len(p.steps))].patience = time.Microsecond * time.Duration(1+r.IntN(2000))
		}
	}
	if strikes > 0 {
		n := r.IntN(strikes + 1)
		if sure {
			n = max(1, n)
		}
		for range n {
			p.strikes[1+r.Int64N(int64(len(p.steps)*9/10))] = true
		}
	}
}

func (s style) op(r *rand.Rand) history.Op {
	switch n := r.IntN(100); {
	case n == 0 && !s.keep:
		return history.Op{Kind: history.Prune}
	case n == 1 && !s.fills:
		return history.Op{Kind: history.Delete, Keys: []int{r.IntN(keys)}}
	case n == 2 && s.compact:
		return history.Op{Kind: history.Compact}
	case 6 <= n && n < 12 && s.clock:
		seconds := 1 + r.IntN(5)
		if s.back && r.IntN(3) == 0 {
			seconds = -seconds
		}
		if s.jumps && r.IntN(3) == 0 {
			seconds = jumps[r.IntN(len(jumps))]
		}
		return history.Op{Kind: history.Tick, Seconds: seconds}
	case 12 <= n && n < 24:
		return history.Op{Kind: history.Read, Keys: []int{r.IntN(keys)}}
	case 24 <= n && n < 32 && !s.single:
		var txn []history.Move
		for range 2 + r.IntN(2) { // a key may come twice
			m := s.move(r)
			if m.Mode == store.Clamp {
				m.Mode = store.IfFits
			}
			txn = append(txn, m)
		}
		if s.asks && r.IntN(4) == 0 {
			txn = questions(txn)
		}
		return history.Op{Kind: history.Apply, Txns: [][]history.Move{txn}}
	case 32 <= n && n < 38 && s.updates:
		op := history.Op{Kind: [...]history.Kind{update, with}[r.IntN(2)]}
		// In one order, so that none deadlock. At READ COMMITTED, a refusal locks nothing, and its
		// transaction may see a later content of the next bucket.
		for _, k := range [...][2]int{{0, 1}, {1, 2}, {2, 3}, {0, 3}}[r.IntN(4)] {
			op.Txns = append(op.Txns, []history.Move{{Key: k, Amount: float64(1 + r.IntN(9)), Mode: store.Always}})
		}
		return op
	}
	txn := []history.Move{s.move(r)}
	if s.asks && r.IntN(6) == 0 {
		txn = questions(txn)
	}
	return history.Op{Kind: history.Fill, Txns: [][]history.Move{txn}}
}

// jumps are long steps of a clock, in seconds. An hour and a year are beyond MaxSkew.
var jumps = [...]int{60, -60, 240, -240, 3600, -3600, 365 * 24 * 3600, -365 * 24 * 3600}

// questions turns moves into questions about the same units.
func questions(txn []history.Move) []history.Move {
	for i := range txn {
		m := &txn[i]
		m.Mode, m.Amount, m.Hold = store.Ask, math.Abs(m.Amount), max(0, m.Hold)
		if m.Amount+m.Hold == 0 { // nothing always fits, and the model does not say so
			m.Amount = 1
		}
	}
	return txn
}

func (s style) move(r *rand.Rand) history.Move {
	m := history.Move{Key: r.IntN(keys), Amount: float64(1 + r.IntN(9))}
	switch n := r.IntN(20); {
	case n < 8: // if it fits
	case n < 10:
		m.Mode = store.Clamp
	case n < 11:
		m.Mode = store.Always
	case n < 14:
		m.Amount, m.Hold = 0, m.Amount
	case s.fills:
	case n < 17:
		m.Mode, m.Amount = store.Always, -m.Amount
	default: // a capture, or a release
		m.Mode, m.Hold, m.Amount = store.Always, -m.Amount, float64(r.IntN(int(m.Amount)+1))
	}
	return m
}
