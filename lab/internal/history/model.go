package history

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/brimgo/brim/internal/differ"
	"github.com/brimgo/brim/store"
	"github.com/brimgo/brim/store/storetest"
)

// Model is the exact content of a store and of its ledger. It never changes. The zero Model is
// empty.
type Model struct {
	storetest.Model
	spends [Spends]phase
}

func (m Model) equal(o Model) bool { return m.spends == o.spends && maps.Equal(m.Buckets, o.Buckets) }

// Answer is the result of an [Op].
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
	States   []store.State // of each operation
}

// result returns the result as the model takes it.
func (r Result) result() *store.Result {
	res := &store.Result{Accepted: r.Accepted, States: r.States}
	if r.NotHeld {
		res.Err = store.ErrNotHeld
	}
	return res
}

// Failure is the promise behind an error.
type Failure string

// The failures that an answer can report.
const (
	NotApplied Failure = "not applied"     // nothing changed
	Unknown    Failure = "outcome unknown" // the call may have been applied
)

// On carries out op on a copy of a model, and returns the copy. a is nil, or the answer: an error
// tells how it differs from the model's. Calls that change no bucket, and those of the ledger,
// return m.
func (o Op) On(m storetest.Model, b Bucket, clock time.Time, a *Answer) (_ storetest.Model, err error) {
	buckets := make(map[string]storetest.Bucket, len(m.Buckets)+1)
	maps.Copy(buckets, m.Buckets)
	m.Buckets = buckets
	switch o.Kind {
	case Delete:
		for _, k := range o.Keys {
			delete(m.Buckets, b(k).Key)
		}
	case Prune:
		m.Prune(clock)
	case Read:
		for i, k := range o.Keys {
			if a != nil && err == nil {
				_, err = m.Read(b(k), clock, &a.Results[0].States[i])
			}
		}
	}
	for i, moves := range o.Txns {
		var got *store.Result
		if a != nil {
			got = a.Results[i].result()
		}
		if err == nil && o.Kind == Apply {
			_, err = m.Apply(txn(b, moves), clock, got)
		} else if err == nil {
			_, err = m.Fill(moves[0].Op(b), clock, got)
		}
	}
	return m, err
}

// txn returns a transaction as the store takes it.
func txn(b Bucket, moves []Move) (txn store.Txn) {
	for _, m := range moves {
		txn = append(txn, m.Op(b))
	}
	return txn
}

// next carries out op, and returns the content after it. a is as in [Op.On].
func (m Model) next(op Op, seconds int, a *Answer) (_ Model, err error) {
	switch op.Kind {
	case Authorize, Capture, Refund:
		var want Result
		m.spends[op.Keys[0]], want.Accepted = m.spends[op.Keys[0]].next(op.Kind)
		want.NotHeld = !want.Accepted
		if a != nil {
			err = Told(differ.Fields(a.Results, []Result{want}))
		}
	default:
		m.Model, err = op.On(m.Model, bucketOf, At(seconds), a)
	}
	return m, err
}

// Content is the state of every bucket by the limit last written, and all spends, after a Prune.
type Content struct {
	Buckets [Keys]store.State
	Spends  [Spends]Spend
}

// Holds returns an error if a content is that of none of the models. It tells how the content
// differs from the last one's.
func Holds(models []Model, seconds int, content Content) (err error) {
	for _, m := range models {
		if err = m.holds(seconds, content); err == nil {
			return nil
		}
	}
	return err
}

func (m Model) holds(seconds int, content Content) error {
	m, err := m.next(Op{Kind: Prune}, seconds, nil)
	for k := 0; err == nil && k < Keys; k++ {
		_, err = m.Read(store.Bucket{Key: key(k)}, At(seconds), &content.Buckets[k])
	}
	if err != nil {
		return err
	}
	var want [Spends]Spend
	for n, p := range m.spends {
		want[n] = p.spent(n)
	}
	return Told(differ.Fields(content.Spends, want))
}

// Matching returns the models that have a content.
func Matching(models []Model, seconds int, content Content) []Model {
	return slices.DeleteFunc(slices.Clone(models), func(m Model) bool { return m.holds(seconds, content) != nil })
}

// Told returns an error with a text, or nil if it is empty.
func Told(text string) error {
	if text == "" {
		return nil
	}
	return fmt.Errorf("%s", text)
}
