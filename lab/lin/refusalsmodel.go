package lin

import (
	"cmp"
	"hash/maphash"
	"slices"

	"github.com/brimgo/brim/lab/internal/history"
)

// refusalsModel is the contract of local.Refusals, which is weaker than that of a store in one
// point. Answers of the wrapped store are exact. A refusal from memory may overlook room that a
// call makes until that call has returned, although other calls show the room already. A call of
// unknown outcome makes its room at any time until its server process has ended.
type refusalsModel struct{ *storeModel }

// roomy is a state of a refusalsModel.
type roomy struct {
	content
	made []room // in the order of over, then of key
}

// room is units that a call took out of a bucket.
type room struct {
	key        int
	level, all float64 // the units without and with those that were held
	over       int64   // when the call had returned
}

func (s roomy) equal(other state) bool {
	o, ok := other.(roomy)
	return ok && s.content == o.content && slices.Equal(s.made, o.made)
}

func (s roomy) hash() uint64 {
	h := s.content.hash()
	for _, m := range s.made {
		h = h*31 + maphash.Comparable(hashSeed, m)
	}
	return h
}

func (m refusalsModel) start() state { return roomy{} }

func (m refusalsModel) step(before state, c *call) (after []state) {
	b, _ := before.(roomy)
	if a, ok := c.out.(storeResponse); ok && len(a.Results) > 0 && a.Results[0].Estimate {
		q, _ := c.in.(storeRequest)
		return m.refused(b, q.Txns[0], a.Results[0], c)
	}
	for _, next := range m.next(b.content, c) {
		s := roomy{content: next, made: b.made}
		for k := range keys {
			drained := b.units[k].Level - next.units[k].Level
			if all := drained + b.units[k].Held - next.units[k].Held; all > 0 {
				s.made = append(slices.Clip(s.made), room{key: k, level: max(0, drained), all: all, over: c.over})
			}
		}
		slices.SortFunc(s.made, func(x, y room) int { return cmp.Or(cmp.Compare(x.over, y.over), x.key-y.key) })
		after = append(after, s)
	}
	return after
}

// refused checks a refusal from memory, with and without the room of calls that had not returned
// when the refused call began.
func (m refusalsModel) refused(b roomy, txn []history.Move, res history.Result, c *call) []state {
	if m.estimate(b.content, txn, res, c.readings) {
		return []state{b}
	}
	full := b.content
	k := txn[0].Key
	for _, r := range b.made {
		if r.key == k && r.over > c.began {
			full.units[k].Level += r.level
			full.units[k].Held += max(0, r.all-r.level)
		}
	}
	if m.estimate(full, txn, res, c.readings) {
		return []state{b}
	}
	return nil
}

// estimate reports whether a refusal from memory is true: the store would have refused, too, at a
// reading during the call, and its level was at least that of the answer. Level and time are only
// lower bounds.
func (m refusalsModel) estimate(b content, txn []history.Move, res history.Result, readings []int64) bool {
	if res.Accepted {
		return false
	}
	if readings == nil {
		readings = []int64{max(b.time[txn[0].Key], res.At[0])}
	}
	for _, at := range readings {
		next := m.leaked(b, txn, func(i int) int64 { return believed(b.time[txn[i].Key], at) })
		want := history.Transact(next.units[:], m.limit(-m.rounding), txn)
		if !want.Accepted && res.Levels[0] <= want.Levels[0]+m.rounding {
			return true
		}
	}
	return false
}
