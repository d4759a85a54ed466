package history

import (
	"slices"

	"github.com/brimgo/brim/store"
)

// Model is the exact content of a store, and its clock. The zero Model is an empty store.
type Model struct {
	seconds int
	buckets [Keys]bucket
}

type bucket struct{ level, held float64 }

// Answer is the result of an [Op]: that of a store, or that of the model.
type Answer struct {
	Err     Failure  `json:"err,omitempty"`
	Text    string   `json:"text,omitempty"` // of the error
	Results []Result `json:"results,omitempty"`
}

// Result is the answer to a transaction.
type Result struct {
	NotHeld  bool      `json:"notHeld,omitempty"` // it takes back more than is held
	Accepted bool      `json:"accepted,omitempty"`
	Levels   []float64 `json:"levels,omitempty"` // of each operation's bucket after the transaction
	Held     []float64 `json:"held,omitempty"`
}

// Failure is the promise behind an error.
type Failure string

// The failures that an answer can report.
const (
	NotApplied Failure = "not applied"     // nothing changed
	Unknown    Failure = "outcome unknown" // the call may have been applied
)

// Next carries out op and returns the content after it, and the answer of a store that did not
// fail.
func (m Model) Next(op Op) (Model, Answer) {
	var a Answer
	switch op.Kind {
	case Tick:
		m.seconds += op.Seconds
		for k := range m.buckets {
			b := &m.buckets[k]
			b.level = max(0, b.level-limit(k).LeakRate*float64(op.Seconds))
		}
	case Delete:
		for _, k := range op.Keys {
			m.buckets[k] = bucket{}
		}
	case Fill, Apply:
		for _, txn := range op.Txns {
			var res Result
			m, res = m.transact(txn)
			a.Results = append(a.Results, res)
		}
	}
	return m, a
}

// transact carries out all moves or none.
func (m Model) transact(txn []Move) (Model, Result) {
	after, res := m, Result{Accepted: true}
	for _, move := range txn {
		b := &after.buckets[move.Key]
		if b.held+move.Hold < 0 {
			return m, Result{NotHeld: true}
		}
		room := limit(move.Key).Capacity - b.level - b.held - move.Amount - move.Hold
		switch {
		case move.Mode == store.IfFits && room < 0:
			res.Accepted = false
		case move.Mode == store.Clamp && room < 0:
			b.level = max(b.level, limit(move.Key).Capacity-b.held)
			res.Accepted = res.Accepted && len(txn) > 1 // a lone clamped fill that spills is not accepted
		default:
			b.level += move.Amount
			b.held += move.Hold
		}
		res.add(*b)
	}
	if res.Accepted || len(txn) == 1 {
		return after, res
	}
	res.Levels, res.Held = nil, nil
	for _, move := range txn {
		res.add(m.buckets[move.Key])
	}
	return m, res
}

func (r *Result) add(b bucket) {
	r.Levels, r.Held = append(r.Levels, b.level), append(r.Held, b.held)
}

// Agrees reports whether an answer that is no error is the model's.
func (a Answer) Agrees(with Answer) bool {
	return slices.EqualFunc(a.Results, with.Results, func(x, y Result) bool {
		return x.NotHeld == y.NotHeld && x.Accepted == y.Accepted &&
			slices.Equal(x.Levels, y.Levels) && slices.Equal(x.Held, y.Held)
	})
}

// Seconds returns how far the clock has moved since the history began.
func (m Model) Seconds() int { return m.seconds }

// Content is the level and the held units of every bucket at a moment.
type Content [Keys]struct{ Level, Held float64 }

// At returns the content that m has when its clock shows seconds, if nothing else happens.
func (m Model) At(seconds int) (c Content) {
	m, _ = m.Next(Op{Kind: Tick, Seconds: seconds - m.seconds})
	for k, b := range m.buckets {
		c[k].Level, c[k].Held = b.level, b.held
	}
	return c
}
