package history

import (
	"slices"

	"github.com/brimgo/brim/store"
)

// Model is the exact content of a store, and its clock. The zero Model is an empty store.
type Model struct {
	seconds int
	buckets [Keys]Units
	spends  [Spends]phase
}

// Units is the content of a bucket.
type Units struct{ Level, Held float64 }

// Answer is the result of an [Op]: that of a store, or that of the model.
type Answer struct {
	Err     Failure
	Text    string // of the error
	Odd     bool   // see [Odd]
	Results []Result
	Each    []Answer // of the callers of a Together
}

// Failure returns the text of the first error in the answer, or "".
func (a Answer) Failure() string {
	if a.Err != "" {
		return a.Text
	}
	for _, each := range a.Each {
		if each.Err != "" {
			return each.Text
		}
	}
	return ""
}

// Result is the answer to a transaction.
type Result struct {
	NotHeld  bool // it takes back more than is held, or than was captured
	Accepted bool
	Levels   []float64 // of each operation's bucket after the transaction
	Held     []float64
	// At is the store's time of the decision for each bucket, in microseconds. The model has none.
	At       []int64
	Estimate bool // a wrapper answered without asking the store
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
			b.Level = max(0, b.Level-limit(k).LeakRate*float64(op.Seconds))
		}
	case Delete:
		for _, k := range op.Keys {
			m.buckets[k] = Units{}
		}
	case Authorize, Capture, Refund:
		var res Result
		m.spends[op.Keys[0]], res.Accepted = m.spends[op.Keys[0]].next(op.Kind)
		res.NotHeld = !res.Accepted
		a.Results = []Result{res}
	case Read:
		var res Result
		for _, k := range op.Keys {
			res.add(m.buckets[k])
		}
		a.Results = []Result{res}
	case Fill, Apply:
		for _, txn := range op.Txns {
			a.Results = append(a.Results, Transact(m.buckets[:], limit, txn))
		}
	}
	return m, a
}

// Transact carries out all moves of a transaction, or none, on the buckets of those numbers. An
// exact answer has whole numbers only.
func Transact(buckets []Units, limit func(k int) store.Limit, txn []Move) Result {
	if len(txn) > 0 && txn[0].Mode == store.Ask {
		return ask(buckets, limit, txn)
	}
	before, res := slices.Clone(buckets), Result{Accepted: true}
	for _, move := range txn {
		b := &buckets[move.Key]
		if b.Held+move.Hold < 0 {
			copy(buckets, before)
			return Result{NotHeld: true}
		}
		room := limit(move.Key).Capacity - b.Level - b.Held - move.Amount - move.Hold
		switch {
		case move.Mode == store.IfFits && room < 0:
			res.Accepted = false
		case move.Mode == store.Clamp && room < 0:
			b.Level = max(b.Level, limit(move.Key).Capacity-b.Held)
			res.Accepted = res.Accepted && len(txn) > 1 // a lone clamped fill that spills is not accepted
		default:
			b.Level = max(0, b.Level+move.Amount)
			b.Held += move.Hold
		}
		res.add(*b)
	}
	if res.Accepted || len(txn) == 1 {
		return res
	}
	copy(buckets, before)
	res.Levels, res.Held = nil, nil
	for _, move := range txn {
		res.add(before[move.Key])
	}
	return res
}

// ask answers a transaction that asks: accepted as the same moves in mode IfFits would be,
// beside the buckets as they are.
func ask(buckets []Units, limit func(k int) store.Limit, txn []Move) (res Result) {
	tries := slices.Clone(txn)
	for i, move := range txn {
		tries[i].Mode = store.IfFits
		res.add(buckets[move.Key])
	}
	res.Accepted = Transact(slices.Clone(buckets), limit, tries).Accepted
	return res
}

func (r *Result) add(b Units) {
	r.Levels, r.Held = append(r.Levels, b.Level), append(r.Held, b.Held)
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

// Content is the level and the held units of every bucket at a moment, and all spends.
type Content struct {
	Buckets [Keys]Units
	Spends  [Spends]Spend
}

// At returns the content that m has when its clock shows seconds, if nothing else happens.
func (m Model) At(seconds int) Content {
	m, _ = m.Next(Op{Kind: Tick, Seconds: seconds - m.seconds})
	c := Content{Buckets: m.buckets}
	for n, p := range m.spends {
		c.Spends[n] = p.spent(n)
	}
	return c
}
